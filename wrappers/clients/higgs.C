// A Higgs -> 4 leptons selection over NanoAOD-like events: the CPU-bound client.
//
// As a program:  higgs URL [TREE] [COMBINATORICS] [CACHE_MB] [CPU_S_PER_MB] [CORE] [HOLD 0|1] [REPORT_FILE]
// As a macro:    root.exe -l -b -q 'higgs.C("URL", "Events", 20)'
// COMBINATORICS is how often each event's leptons are paired, each time at a slightly shifted momentum
// scale, as an analysis does for its systematic uncertainties. CPU_S_PER_MB above 0: as often as it takes
// until so much CPU time has gone into each megabyte of the file, on whatever processor this is.
// CORE is the share of a core that stands for a whole one: the job computes for so much of the time, and rests.
// The other arguments and the exit status are those of root_read.
#include "replica.h"

#include <Math/Vector4D.h>
#include <TTreeReader.h>
#include <TTreeReaderArray.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tierbench {

using Momentum = ROOT::Math::PtEtaPhiMVector;
constexpr double zMass = 91.1876; // GeV

struct Lepton {
    Momentum momentum;
    int charge;
};

// The leptons of one flavour in an event, and the cuts that make them good ones.
class Leptons {
public:
    Leptons(TTreeReader &reader, const std::string &name, double minPt, double maxEta)
        : pt_(reader, (name + "_pt").c_str()), eta_(reader, (name + "_eta").c_str()), phi_(reader, (name + "_phi").c_str()),
          mass_(reader, (name + "_mass").c_str()), isolation_(reader, (name + "_pfRelIso03_all").c_str()),
          dxy_(reader, (name + "_dxy").c_str()), dz_(reader, (name + "_dz").c_str()),
          charge_(reader, (name + "_charge").c_str()), minPt_(minPt), maxEta_(maxEta)
    {
    }

    std::vector<Lepton> good(double scale)
    {
        std::vector<Lepton> leptons;
        for (std::size_t i = 0; i < pt_.GetSize(); ++i)
            if (pt_[i] * scale > minPt_ && std::abs(eta_[i]) < maxEta_ && isolation_[i] < 0.4 && std::abs(dxy_[i]) < 0.5
                && std::abs(dz_[i]) < 1)
                leptons.push_back({Momentum(pt_[i] * scale, eta_[i], phi_[i], mass_[i]), charge_[i]});
        return leptons;
    }

private:
    TTreeReaderArray<float> pt_, eta_, phi_, mass_, isolation_, dxy_, dz_;
    TTreeReaderArray<int> charge_;
    double minPt_, maxEta_;
};

// The pair of opposite charge closest to the Z mass within 12 … 120 GeV, taken out of the leptons.
inline bool takeZ(std::vector<Lepton> &leptons, Momentum &z)
{
    double best = 1e9;
    std::pair<std::size_t, std::size_t> pair;
    for (std::size_t i = 0; i < leptons.size(); ++i)
        for (std::size_t j = i + 1; j < leptons.size(); ++j) {
            if (leptons[i].charge + leptons[j].charge != 0)
                continue;
            const Momentum sum = leptons[i].momentum + leptons[j].momentum;
            const double mass = sum.M(), distance = std::abs(mass - zMass);
            if (mass > 12 && mass < 120 && distance < best) {
                best = distance;
                pair = {i, j};
                z = sum;
            }
        }
    if (best == 1e9)
        return false;
    leptons.erase(leptons.begin() + pair.second);
    leptons.erase(leptons.begin() + pair.first);
    return true;
}

// The four-lepton mass of an event, or 0 if it has no two Z candidates.
inline double fourLeptonMass(std::vector<Lepton> muons, std::vector<Lepton> electrons)
{
    Momentum first, second;
    const bool found = (takeZ(muons, first) || takeZ(electrons, first)) && (takeZ(electrons, second) || takeZ(muons, second));
    return found ? (first + second).M() : 0;
}

} // namespace tierbench

int higgs(const char *url, const char *tree = "", int combinatorics = 20, double cacheMb = 0, double cpuPerMb = 0,
          double core = 1, bool hold = false, const char *report = "")
{
    tierbench::Replica replica(url);
    long long selected = 0, pairings = 0, events = 0;
    double massSum = 0, computed = 0;
    tierbench::Core worker(core); // ROOT's start is work of this core, too, where it falls within the time
    if (replica.waitForGo(hold)) {
        if (hold)
            worker = tierbench::Core(core);
        if (!replica.open(tree))
            return replica.report(report);
        replica.setCache(cacheMb, true);
        const double each = cpuPerMb * replica.megabytes() / std::max(1LL, static_cast<long long>(replica.tree().GetEntries()));
        TTreeReader reader(&replica.tree());
        tierbench::Leptons muons(reader, "Muon", 5, 2.4), electrons(reader, "Electron", 7, 2.5);
        bool going = replica.tree().GetBranch("Muon_pt") && replica.tree().GetBranch("Electron_pt");
        if (!going)
            replica.fail("failed", "the tree has no NanoAOD-like muons and electrons");
        while (going && reader.Next()) {
            ++events;
            for (int i = 0; i == 0 || (cpuPerMb > 0 ? worker.used() < each * events : i < combinatorics); ++i, ++pairings) {
                const double scale = 1 + 1e-4 * i;
                const double mass = tierbench::fourLeptonMass(muons.good(scale), electrons.good(scale));
                if (i == 0 && mass > 0) {
                    ++selected;
                    massSum += mass;
                }
            }
            worker.rest();
            going = replica.count(0);
        }
        computed = worker.computed();
        if (going && reader.GetEntryStatus() != TTreeReader::kEntryBeyondEnd)
            replica.fail("short-read", "event " + std::to_string(reader.GetCurrentEntry()) + " could not be read");
    }
    return replica.report(report, ", \"combinatorics\": " + std::to_string(events ? double(pairings) / events : 0.)
                                      + ", \"computed_s\": " + std::to_string(computed) + ", \"core\": "
                                      + std::to_string(core) + ", \"selected\": " + std::to_string(selected) + ", \"mean_mass_gev\": "
                                      + std::to_string(selected ? massSum / selected : 0.));
}

#ifndef __CLING__
int main(int argc, char **argv)
{
    if (argc < 2 || argc > 9) {
        std::fprintf(stderr, "usage: higgs URL [TREE] [COMBINATORICS] [CACHE_MB] [CPU_S_PER_MB] [CORE] [HOLD 0|1] [REPORT_FILE]\n");
        return 2;
    }
    return higgs(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::atoi(argv[3]) : 20, argc > 4 ? std::atof(argv[4]) : 0,
                 argc > 5 ? std::atof(argv[5]) : 0, argc > 6 ? std::atof(argv[6]) : 1, argc > 7 && std::atoi(argv[7]),
                 argc > 8 ? argv[8] : "");
}
#endif
