// A processor's core that is as fast as a share of this one, for the ROOT programs of a scale model.
#ifndef TIERBENCH_CORE_H
#define TIERBENCH_CORE_H

#include <cmath>
#include <cstdio>

#include <time.h>

namespace tierbench {

inline double secondsOf(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// For how long this thread was ready to compute and the processor was with others; 0 where the kernel does not tell.
inline double waitedForProcessor()
{
    long long waited = 0;
    if (FILE *schedule = std::fopen("/proc/self/schedstat", "r")) {
        if (std::fscanf(schedule, "%*d %lld", &waited) != 1)
            waited = 0;
        std::fclose(schedule);
    }
    return 1e-9 * waited;
}

// A core that is as fast as a share of this one: after computing it rests, so that a scale model's jobs compute as
// slowly as its links carry. Waiting for the real core counts as rest.
class Core {
public:
    explicit Core(double share) : slower_(1 / share) {}

    double used() const { return secondsOf(CLOCK_PROCESS_CPUTIME_ID) - begun_; }
    double computed() const { return used() * slower_; } // on the slower core

    void rest()
    {
        if (slower_ == 1 || owed() < 0.01)
            return;
        waited_ = waitedForProcessor() - waitedBefore_;
        const double pause = owed(), from = secondsOf(CLOCK_MONOTONIC);
        if (pause <= 0)
            return;
        const timespec time{static_cast<time_t>(pause), static_cast<long>(1e9 * (pause - std::floor(pause)))};
        nanosleep(&time, nullptr);
        rested_ += secondsOf(CLOCK_MONOTONIC) - from;
    }

private:
    double owed() const { return used() * (slower_ - 1) - waited_ - rested_; }

    double slower_, begun_ = secondsOf(CLOCK_PROCESS_CPUTIME_ID), waitedBefore_ = waitedForProcessor(), waited_ = 0, rested_ = 0;
};

} // namespace tierbench

#endif
