// The root routine: reads every event of a tree or an RNTuple, all branches or a share of them, and adds up their bytes.
//
// As a program:  root_read URL [TREE] [CACHE_MB] [LEARN 0|1] [CPU_SHARE] [BRANCHES] [CLUSTERS] [HOLD 0|1] [REPORT_FILE]
// As a macro:    root.exe -l -b -q 'root_read.C("URL", "TREE", 0, false)'
// TREE "" is the first one of the file. CACHE_MB -1: no read cache, 0: ROOT's default. LEARN 0: the cache
// is told which branches are wanted. CPU_SHARE: of this core, which is then taken for a whole one. BRANCHES: the share
// of them that is read, evenly spread. CLUSTERS: of an RNTuple, fetched at once; 0: without a cluster cache. HOLD 1: says "ready" and begins with a line on standard input.
// Exit status: 0 all events were read; 1 not, the line of JSON says why; 2 wrong arguments or no place to report.
#include "replica.h"

#include <cstdlib>

int root_read(const char *url, const char *tree = "", double cacheMb = 0, bool learn = false, double share = 1,
              double branches = 1, int clusters = 1, bool hold = false, const char *report = "")
{
    tierbench::Replica replica(url);
    tierbench::Core core(share); // ROOT's start is work of this core, too, where it falls within the time
    const bool began = replica.waitForGo(hold);
    if (hold)
        core = tierbench::Core(share);
    int read = 0;
    if (began && replica.open(tree, clusters)) {
        read = replica.choose(branches);
        replica.setCache(cacheMb, learn);
        const long long entries = replica.entries();
        long long unpaced = 0;
        for (long long entry = 0; entry < entries; ++entry) {
            const long long bytes = replica.read(entry);
            if (bytes <= 0)
                replica.fail("short-read", "event " + std::to_string(entry) + " could not be read");
            if (bytes <= 0 || !replica.count(bytes))
                break;
            if ((unpaced += bytes) >= 1 << 16) { // to look at the clock for each of small events would cost more than they
                core.rest();
                unpaced = 0;
            }
        }
    }
    return replica.report(report, (share == 1 ? "" : ", \"computed_s\": " + std::to_string(core.computed()))
                                      + (branches == 1 ? "" : ", \"branches\": " + std::to_string(read)));
}

#ifndef __CLING__
int main(int argc, char **argv)
{
    if (argc < 2 || argc > 10) {
        std::fprintf(stderr, "usage: root_read URL [TREE] [CACHE_MB] [LEARN 0|1] [CPU_SHARE] [BRANCHES] [CLUSTERS] [HOLD 0|1] [REPORT_FILE]\n");
        return 2;
    }
    return root_read(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::atof(argv[3]) : 0,
                     argc > 4 && std::atoi(argv[4]), argc > 5 ? std::atof(argv[5]) : 1, argc > 6 ? std::atof(argv[6]) : 1,
                     argc > 7 ? std::atoi(argv[7]) : 1, argc > 8 && std::atoi(argv[8]), argc > 9 ? argv[9] : "");
}
#endif
