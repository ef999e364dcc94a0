// What the ROOT programs that read have in common: they load ROOT, wait for the go, open one replica
// in the remote way, count what they read, and report it in one line of JSON.
#ifndef TIERBENCH_REPLICA_H
#define TIERBENCH_REPLICA_H

#include <TBranch.h>
#include <TEnv.h>
#include <TError.h>
#include <TFile.h>
#include <TKey.h>
#include <TPluginManager.h>
#include <TROOT.h>
#include <TTree.h>

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

    // Load what reading needs, say "ready" and wait for a line on standard input; no line, no go.
    bool waitForGo(bool hold)
    {
        if (remote())
            if (TPluginHandler *handler = gROOT->GetPluginManager()->FindHandler("TFile", url_.c_str()))
                handler->LoadPlugin();
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

    // Open the file and its tree (the first one, if it is not named); false after a failure.
    bool open(const std::string &treeName)
    {
        file_.reset(TFile::Open(url_.c_str(), "READ"));
        if (!file_ || file_->IsZombie()) {
            const bool truncated = firstError.find("is truncated") != std::string::npos;
            return fail(truncated ? "short-read" : "open-failed", "could not open " + url_);
        }
        openedWall_ = wallNanoseconds();
        if (remote() && std::string(file_->ClassName()) != "TNetXNGFile")
            return fail("wrong-protocol", url_ + " was opened as " + file_->ClassName() + ", not by XRootD");
        std::string name = treeName;
        for (TObject *key : *file_->GetListOfKeys())
            if (name.empty() && std::string(static_cast<TKey *>(key)->GetClassName()) == "TTree")
                name = key->GetName();
        tree_ = file_->Get<TTree>(name.c_str());
        return tree_ != nullptr || fail("failed", url_ + " holds no tree" + (name.empty() ? "" : " " + name));
    }

    // Read only so large a share of the branches, evenly spread; how many those are.
    int choose(double share)
    {
        int chosen = 0, number = 0;
        for (TObject *branch : *tree_->GetListOfBranches()) {
            const bool wanted = number++ * share + 1e-9 >= chosen; // the first one in any case
            static_cast<TBranch *>(branch)->SetStatus(wanted);
            chosen += wanted;
        }
        return chosen;
    }

    // -1 turns the tree's read cache off, 0 leaves ROOT's default. Whoever is told the branches has nothing to learn.
    void setCache(double megabytes, bool learn)
    {
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
        if (status_ == "ok" && events_ != tree_->GetEntries())
            fail("short-read", "read " + std::to_string(events_) + " of " + std::to_string(tree_->GetEntries()) + " events");
        FILE *out = *path ? std::fopen(path, "w") : stdout;
        if (!out)
            return 2;
        std::fprintf(out, "{\"status\": %s, \"message\": %s, ", jsonString(status_).c_str(), jsonString(message_).c_str());
        std::fprintf(out, "\"opened_wall_ns\": %s, \"first_event_wall_ns\": %s, \"end_wall_ns\": %lld, ",
                     orNull(openedWall_).c_str(), orNull(firstEventWall_).c_str(), end);
        std::fprintf(out, "\"bytes\": %lld, \"process_read_bytes\": %lld, \"tree_bytes\": %lld, \"events\": %lld, ",
                     file_ ? file_->GetBytesRead() : 0LL, processRead, treeBytes_, events_);
        std::fprintf(out, "\"file_bytes\": %lld, \"tree_entries\": %lld, \"read_calls\": %d, \"cache_bytes\": %lld, ",
                     file_ ? file_->GetSize() : -1LL, tree_ ? tree_->GetEntries() : -1LL,
                     file_ ? file_->GetReadCalls() : 0, tree_ ? tree_->GetCacheSize() : 0LL);
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
    bool remote() const { return url_.rfind("root://", 0) == 0 || url_.rfind("roots://", 0) == 0; }

    static std::string orNull(long long value) { return value ? std::to_string(value) : "null"; }

    std::string url_, status_ = "ok", message_;
    std::unique_ptr<TFile> file_;
    TTree *tree_ = nullptr;
    long long readAtGo_ = 0, openedWall_ = 0, firstEventWall_ = 0, treeBytes_ = 0, events_ = 0;
};

} // namespace tierbench

#endif
