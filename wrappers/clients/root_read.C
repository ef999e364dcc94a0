// The root routine: reads every event of a tree in full, all branches, and adds up their bytes.
//
// As a program:  root_read URL [TREE] [CACHE_MB] [LEARN 0|1] [HOLD 0|1] [REPORT_FILE]
// As a macro:    root.exe -l -b -q 'root_read.C("URL", "TREE", 0, false)'
// TREE "" is the first tree of the file. CACHE_MB -1: no read cache, 0: ROOT's default. LEARN 0: the cache
// is told that all branches are wanted. HOLD 1: says "ready" and begins with a line on standard input.
// Exit status: 0 all events were read; 1 not, the line of JSON says why; 2 wrong arguments or no place to report.
#include "replica.h"

#include <cstdlib>

int root_read(const char *url, const char *tree = "", double cacheMb = 0, bool learn = false, bool hold = false,
              const char *report = "")
{
    tierbench::Replica replica(url);
    if (replica.waitForGo(hold) && replica.open(tree)) {
        replica.setCache(cacheMb, learn);
        const Long64_t entries = replica.tree().GetEntries();
        for (Long64_t entry = 0; entry < entries; ++entry) {
            const Int_t bytes = replica.tree().GetEntry(entry);
            if (bytes <= 0)
                replica.fail("short-read", "event " + std::to_string(entry) + " could not be read");
            if (bytes <= 0 || !replica.count(bytes))
                break;
        }
    }
    return replica.report(report);
}

#ifndef __CLING__
int main(int argc, char **argv)
{
    if (argc < 2 || argc > 7) {
        std::fprintf(stderr, "usage: root_read URL [TREE] [CACHE_MB] [LEARN 0|1] [HOLD 0|1] [REPORT_FILE]\n");
        return 2;
    }
    return root_read(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::atof(argv[3]) : 0,
                     argc > 4 && std::atoi(argv[4]), argc > 5 && std::atoi(argv[5]), argc > 6 ? argv[6] : "");
}
#endif
