// What the ROOT programs that read have in common: they load ROOT, wait for the go, open one replica
// by its remote protocol, count what they read, and report it in one line of JSON; and a core of a scale model.
#ifndef TIERBENCH_REPLICA_H
#define TIERBENCH_REPLICA_H

#include "ntuple.h"

#include <TBranch.h>
#include <TClass.h>
#include <TEnv.h>
#include <TError.h>
#include <TFile.h>
#include <TKey.h>
#include <TPluginManager.h>
#include <TROOT.h>
#include <TSystem.h>
#include <TTree.h>
#include <TTreeCache.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <time.h>
#include <unistd.h>

namespace tierbench {

#ifdef __CLING__
constexpr const char *program = "macro"; // interpreted: several times the CPU of a compiled one, so results name it
#else
constexpr const char *program = "compiled";
#endif

inline volatile std::sig_atomic_t terminated = 0;
inline std::string firstError; // what ROOT complained of first, which explains most of what follows

inline long long wallNanoseconds()
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// What this process has read() until now, from files and sockets alike; -1 where the kernel does not count.
inline long long processReadBytes()
{
    long long bytes = -1;
    if (FILE *io = std::fopen("/proc/self/io", "r")) {
        if (std::fscanf(io, "rchar: %lld", &bytes) != 1)
            bytes = -1;
        std::fclose(io);
    }
    return bytes;
}

// The file that ROOT itself was loaded from; empty where the kernel does not tell.
inline std::string rootLibrary()
{
    std::string path;
    if (FILE *maps = std::fopen("/proc/self/maps", "r")) {
        char line[4608];
        while (path.empty() && std::fgets(line, sizeof line, maps))
            if (std::strstr(line, "/libCore.so"))
                path = std::strchr(line, '/');
        std::fclose(maps);
    }
    return path.substr(0, path.find('\n'));
}

inline std::string jsonString(const std::string &text)
{
    std::string result = "\"";
    for (unsigned char c : text) {
        if (c == '"' || c == '\\')
            result += '\\';
        result += c < ' ' ? ' ' : static_cast<char>(c);
    }
    return result + '"';
}

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

class Replica {
public:
    explicit Replica(const char *url) : url_(url)
    {
        // If the URL's host is this one and the path exists, ROOT would read the local file instead.
        gEnv->SetValue("TFile.ForceRemote", 1);
        gEnv->SetValue("Path.ForceRemote", 1);
        // Nor is a truncated file to be searched for what is left of it: that takes minutes over a WAN.
        gEnv->SetValue("TFile.Recover", 0);
        SetErrorHandler([](int level, Bool_t abort, const char *location, const char *message) {
            if (level >= kError && firstError.empty())
                firstError = std::string(location) + ": " + message;
            DefaultErrorHandler(level, abort, location, message);
        });
    }

    // Start ROOT, say "ready" and wait for a line on standard input; no line, no go.
    bool waitForGo(bool hold)
    {
        start();
        if (hold) {
            std::puts("ready");
            std::fflush(stdout);
            char go = 0;
            while (go != '\n')
                if (::read(STDIN_FILENO, &go, 1) != 1)
                    return fail("killed", "no go came");
        }
        std::signal(SIGTERM, [](int) { terminated = 1; }); // what was read until then is to be reported
        readAtGo_ = processReadBytes();
        return true;
    }

    // Open the file and its tree or RNTuple (the first one, if it is not named); false after a failure. An RNTuple is
    // opened by its own reader, which fetches so many clusters at once; less than 0: none is wanted.
    bool open(const std::string &treeName, int clusters = -1)
    {
        if (clusters >= 0 && isNtuple())
            return openNtuple(treeName.empty() ? "tree" : treeName, clusters); // no TFile has to find out what it is
        file_.reset(TFile::Open(url_.c_str(), "READ"));
        if (!file_ || file_->IsZombie()) {
            const bool truncated = firstError.find("is truncated") != std::string::npos;
            return fail(truncated ? "short-read" : "open-failed", "could not open " + url_);
        }
        openedWall_ = wallNanoseconds();
        if (remote() && std::string(file_->ClassName()) != "TNetXNGFile")
            return fail("wrong-protocol", url_ + " was opened as " + file_->ClassName() + ", not by XRootD");
        std::string name = treeName;
        for (TObject *object : *file_->GetListOfKeys()) {
            const std::string kind = static_cast<TKey *>(object)->GetClassName();
            if (name.empty() && (kind == "TTree" || (kind == "ROOT::RNTuple" && clusters >= 0)))
                name = object->GetName();
            if (name == object->GetName() && kind == "ROOT::RNTuple" && clusters >= 0)
                return openNtuple(name, clusters);
        }
        tree_ = file_->Get<TTree>(name.c_str());
        return tree_ != nullptr || fail("failed", url_ + " holds no tree" + (name.empty() ? "" : " " + name));
    }

    // Read only so large a share of the branches, evenly spread; how many those are.
    int choose(double share)
    {
        if (ntuple_)
            return ntuple_->choose(share);
        ofTree_.openingBytes = file_->GetBytesRead();
        int chosen = 0, number = 0;
        for (TObject *branch : *tree_->GetListOfBranches()) {
            const bool wanted = number++ * share + 1e-9 >= chosen; // the first one in any case
            static_cast<TBranch *>(branch)->SetStatus(wanted);
            chosen += wanted;
            ofTree_.columnBytes += wanted ? static_cast<TBranch *>(branch)->GetZipBytes("*") : 0;
        }
        return chosen;
    }

    // -1 turns the tree's read cache off, 0 leaves ROOT's default. Whoever is told the branches has nothing to learn.
    void setCache(double megabytes, bool learn)
    {
        if (ntuple_)
            return;
        if (megabytes != 0)
            tree_->SetCacheSize(megabytes < 0 ? 0 : static_cast<Long64_t>(megabytes * 1e6));
        if (megabytes >= 0 && !learn) {
            for (TObject *branch : *tree_->GetListOfBranches())
                if (!branch->TestBit(kDoNotProcess))
                    tree_->AddBranchToCache(static_cast<TBranch *>(branch), true);
            tree_->StopCacheLearningPhase();
        }
    }

    TTree &tree() { return *tree_; }

    long long entries() const { return ntuple_ ? ntuple_->entries() : tree_ ? tree_->GetEntries() : -1; }

    // The bytes of one event, unpacked; 0 or less where it cannot be read.
    long long read(long long event)
    {
        if (!ntuple_)
            return tree_->GetEntry(event);
        try {
            return ntuple_->read(event);
        } catch (const std::exception &error) {
            firstError = error.what();
            return -1;
        }
    }

    double megabytes() const { return file_->GetSize() / 1e6; }

    // One event has been read; false when it is time to stop.
    bool count(long long bytes)
    {
        if (events_++ == 0)
            firstEventWall_ = wallNanoseconds();
        treeBytes_ += bytes;
        return !terminated || fail("killed", "terminated while reading");
    }

    bool fail(const std::string &status, const std::string &message)
    {
        status_ = status;
        message_ = message + (firstError.empty() ? "" : ": " + firstError);
        return false;
    }

    // Write the one line of JSON to a file, or to standard output if none is named; 0 if all went well.
    int report(const char *path, const std::string &extra = "")
    {
        const long long end = wallNanoseconds(), processRead = processReadBytes() - readAtGo_;
        if (status_ == "ok" && events_ != entries())
            fail("short-read", "read " + std::to_string(events_) + " of " + std::to_string(entries()) + " events");
        const Reading took = reading();
        FILE *out = *path ? std::fopen(path, "w") : stdout;
        if (!out)
            return 2;
        std::fprintf(out, "{\"status\": %s, \"message\": %s, ", jsonString(status_).c_str(), jsonString(message_).c_str());
        std::fprintf(out, "\"opened_wall_ns\": %s, \"first_event_wall_ns\": %s, \"end_wall_ns\": %lld, ",
                     orNull(openedWall_).c_str(), orNull(firstEventWall_).c_str(), end);
        std::fprintf(out, "\"bytes\": %lld, \"process_read_bytes\": %lld, \"tree_bytes\": %lld, \"events\": %lld, ",
                     took.bytes, processRead, treeBytes_, events_);
        std::fprintf(out, "\"file_bytes\": %lld, \"tree_entries\": %lld, \"read_calls\": %lld, \"vector_reads\": %lld, ",
                     fileBytes(), entries(), took.calls, took.vectorReads);
        std::fprintf(out, "\"format\": \"%s\", \"cache_bytes\": %lld, \"clusters\": %lld, \"opening_bytes\": %lld, ",
                     ntuple_ ? "RNTuple" : "TTree", tree_ ? tree_->GetCacheSize() : 0LL, took.clusters, took.openingBytes);
        std::fprintf(out, "\"column_bytes\": %lld, \"gap_bytes\": %lld, ", took.columnBytes, took.gapBytes);
        std::fprintf(out, "\"file_class\": %s, \"root_version\": %s, \"root_library\": %s, \"program\": \"%s\"%s}\n",
                     jsonString(file_ ? file_->ClassName() : "").c_str(), jsonString(gROOT->GetVersion()).c_str(),
                     jsonString(rootLibrary()).c_str(), program, extra.c_str());
        const bool written = std::fflush(out) == 0;
        if (out != stdout)
            std::fclose(out);
        if (status_ != "ok") {
            std::fflush(nullptr);
            ::_exit(1); // closing a file whose connection has broken can crash, or wait for minutes
        }
        return written ? 0 : 2;
    }

private:
    // What ROOT does once in each process, before the go, for files by mount and by protocol alike: on its first use it starts
    // an interpreter, loads classes and finds plugins, 0.2 s of CPU.
    void start()
    {
        gEnv->SetValue("Root.PluginPath", "/dev/null"); // its macros would be compiled; the plugins that reading needs are named here
        TPluginManager *plugins = gROOT->GetPluginManager();
        plugins->AddHandler("TFile", "^roots?:", "TNetXNGFile", "NetxNG",
                            "TNetXNGFile(const char*, Option_t*, const char*, Int_t, Int_t, Bool_t)");
        plugins->AddHandler("TSystem", "^roots?:", "TNetXNGSystem", "NetxNG", "TNetXNGSystem(const char*, Bool_t)");
        plugins->AddHandler("ROOT::Internal::RRawFile", "^roots?:", "ROOT::Internal::RRawFileNetXNG", "NetxNG",
                            "RRawFileNetXNG(std::string_view, ROOT::Internal::RRawFile::ROptions)");
        if (TPluginHandler *handler = plugins->FindHandler("TFile", url_.c_str()))
            handler->LoadPlugin();
        if (isNtuple())
            return;
        for (const char *name : {"TTree", "TLeafF", "TBasket", "TList"})
            if (TClass *known = TClass::GetClass(name))
                known->GetStreamerInfo();
    }

    bool isNtuple() const { return url_.size() > 13 && url_.compare(url_.size() - 13, 13, ".rntuple.root") == 0; }

    bool openNtuple(const std::string &name, int clusters)
    {
        try {
            ntuple_ = std::make_unique<Ntuple>(name, url_, clusters);
        } catch (const std::exception &error) {
            return fail("open-failed", "could not open the RNTuple " + name + " of " + url_ + ": " + error.what());
        }
        openedWall_ = wallNanoseconds();
        return true;
    }

    Reading reading() const
    {
        Reading reading = ntuple_ ? ntuple_->reading() : ofTree_;
        if (tree_) {
            if (const TFileCacheRead *cache = file_->GetCacheRead(tree_))
                reading.vectorReads = cache->GetReadCalls();
            for (auto cluster = tree_->GetClusterIterator(0); cluster() < tree_->GetEntries();)
                ++reading.clusters;
        }
        if (file_) { // which may have had to find an RNTuple, too
            reading.bytes += file_->GetBytesRead();
            reading.calls += file_->GetReadCalls();
            reading.openingBytes += ntuple_ ? file_->GetBytesRead() : 0;
        }
        if (!remote())
            reading.vectorReads = 0; // each range is read by itself
        return reading;
    }

    long long fileBytes() const
    {
        FileStat_t known;
        const bool asked = !file_ && status_ == "ok" && gSystem->GetPathInfo(url_.c_str(), known) == 0;
        return file_ ? file_->GetSize() : asked ? known.fSize : -1;
    }

    bool remote() const { return url_.rfind("root://", 0) == 0 || url_.rfind("roots://", 0) == 0; }

    static std::string orNull(long long value) { return value ? std::to_string(value) : "null"; }

    std::string url_, status_ = "ok", message_;
    std::unique_ptr<TFile> file_;
    std::unique_ptr<Ntuple> ntuple_;
    TTree *tree_ = nullptr;
    Reading ofTree_;
    long long readAtGo_ = 0, openedWall_ = 0, firstEventWall_ = 0, treeBytes_ = 0, events_ = 0;
};

} // namespace tierbench

#endif
