// Writes one replica of random numbers, of about the size that is asked for.
//
// As a program:  make_tree KIND OUTPUT SIZE_MB SEED [BRANCHES] [LEAVES] [BASKET_KB] [CODEC] [EVENTS] [CLUSTER]
// As a macro:    root.exe -l -b -q 'make_tree.C("tree", "out.root", 100, 1)'
// KIND tree: BRANCHES (20) of LEAVES (5000) floats each, in the tree "tree".
// KIND rntuple: the same numbers as an RNTuple; EVENTS and CLUSTER must be said. BASKET_KB does not matter.
// KIND higgs: NanoAOD-like events with muons and electrons, in the tree "Events"; BRANCHES and LEAVES do not matter.
// CODEC: none, zlib-1, lz4-4 or zstd-5 (default). EVENTS: exactly so many, whatever the size. CLUSTER: events of each
// cluster. 0: both by the size. Prints one line of JSON: path, bytes, events.
// The output appears under its name only when it is whole. Exit status: 0 written; 1 not; 2 wrong arguments.
#include <RVersion.h>
#include <TFile.h>
#include <TRandom3.h>
#include <TTree.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#if ROOT_VERSION_CODE >= ROOT_VERSION(6, 40, 0)
#define TIERBENCH_RNTUPLE
#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#endif

namespace tierbench {

constexpr int maxLeptons = 16;

// The branches of one flavour of leptons.
struct LeptonBranches {
    int n;
    float pt[maxLeptons], eta[maxLeptons], phi[maxLeptons], mass[maxLeptons], isolation[maxLeptons], dxy[maxLeptons], dz[maxLeptons];
    int charge[maxLeptons];

    void attach(TTree &tree, const std::string &name, int basketBytes)
    {
        tree.Branch(("n" + name).c_str(), &n, ("n" + name + "/I").c_str(), basketBytes);
        auto column = [&](const char *what, void *values, const char *type) {
            const std::string leaf = name + "_" + what;
            tree.Branch(leaf.c_str(), values, (leaf + "[n" + name + "]/" + type).c_str(), basketBytes);
        };
        column("pt", pt, "F");
        column("eta", eta, "F");
        column("phi", phi, "F");
        column("mass", mass, "F");
        column("charge", charge, "I");
        column("pfRelIso03_all", isolation, "F");
        column("dxy", dxy, "F");
        column("dz", dz, "F");
    }

    void generate(TRandom3 &random, float leptonMass)
    {
        n = std::min<int>(random.Poisson(3), maxLeptons);
        for (int i = 0; i < n; ++i) {
            pt[i] = 3 + random.Exp(30);
            eta[i] = random.Uniform(-2.7, 2.7);
            phi[i] = random.Uniform(-M_PI, M_PI);
            mass[i] = leptonMass;
            charge[i] = random.Rndm() < 0.5 ? -1 : 1;
            isolation[i] = random.Exp(0.1);
            dxy[i] = random.Gaus(0, 0.01);
            dz[i] = random.Gaus(0, 0.05);
        }
    }
};

// How much to write: of events and clusters that are not said, the size decides.
struct Amount {
    double bytes;
    Long64_t events, cluster;
};

// Fill clusters of 30 MB, or an eighth of a small file; how many events make up the size shows after the first.
inline void fill(TFile &file, TTree &tree, Amount amount, double eventBytes, const std::function<void()> &generate)
{
    const Long64_t usual = std::max<Long64_t>(1, std::min(30e6, amount.bytes / 8) / eventBytes);
    const Long64_t cluster = amount.cluster ? amount.cluster : usual;
    tree.SetAutoFlush(cluster); // one in bytes, as is ROOT's default, would change the size of the baskets
    double packed = eventBytes;
    auto lacking = [&](Long64_t events) { return amount.events ? events < amount.events : events * packed < amount.bytes; };
    while (lacking(tree.GetEntries()) && !file.TestBit(TFile::kWriteError)) {
        generate();
        tree.Fill();
        if (tree.GetEntries() % cluster == 0)
            packed = double(tree.GetZipBytes()) / tree.GetEntries();
    }
}

inline Long64_t fillNumbers(TFile &file, Amount amount, TRandom3 &random, int branches, int leaves, int basketBytes)
{
    TTree tree("tree", "random numbers");
    std::vector<float> values(static_cast<std::size_t>(branches) * leaves);
    std::string list = "x0/F";
    for (int leaf = 1; leaf < leaves; ++leaf)
        list += ":x" + std::to_string(leaf);
    for (int branch = 0; branch < branches; ++branch)
        tree.Branch(("b" + std::to_string(branch)).c_str(), &values[static_cast<std::size_t>(branch) * leaves], list.c_str(), basketBytes);
    fill(file, tree, amount, 4.0 * values.size(), [&] { random.RndmArray(values.size(), values.data()); });
    tree.Write();
    return tree.GetEntries();
}

#ifdef TIERBENCH_RNTUPLE
inline Long64_t fillNtuple(TFile &file, Amount amount, TRandom3 &random, int branches, int leaves)
{
    std::vector<float> values(static_cast<std::size_t>(branches) * leaves);
    const std::string type = leaves == 1 ? "float" : "std::array<float," + std::to_string(leaves) + ">";
    auto model = ROOT::RNTupleModel::CreateBare();
    for (int branch = 0; branch < branches; ++branch)
        model->AddField(ROOT::RFieldBase::Create("b" + std::to_string(branch), type).Unwrap());
    ROOT::RNTupleWriteOptions options;
    options.SetCompression(file.GetCompressionSettings());
    options.SetMaxUnzippedClusterSize(std::size_t(1) << 31); // a cluster ends where we say
    options.SetApproxZippedClusterSize(std::size_t(1) << 30);
    auto writer = ROOT::RNTupleWriter::Append(std::move(model), "tree", file, options);
    auto entry = writer->CreateEntry();
    for (int branch = 0; branch < branches; ++branch)
        entry->BindRawPtr("b" + std::to_string(branch), static_cast<void *>(&values[static_cast<std::size_t>(branch) * leaves]));
    for (Long64_t event = 1; event <= amount.events; ++event) {
        random.RndmArray(values.size(), values.data());
        writer->Fill(*entry);
        if (event % amount.cluster == 0)
            writer->CommitCluster();
    }
    writer->CommitDataset();
    return amount.events;
}
#else
inline Long64_t fillNtuple(TFile &, Amount, TRandom3 &, int, int) { throw std::runtime_error("this ROOT writes no RNTuple"); }
#endif

inline Long64_t fillEvents(TFile &file, Amount amount, TRandom3 &random, int basketBytes)
{
    TTree tree("Events", "synthetic events with leptons");
    UInt_t run = 1;
    ULong64_t event = 0;
    tree.Branch("run", &run, "run/i", basketBytes);
    tree.Branch("event", &event, "event/l", basketBytes);
    LeptonBranches muons, electrons;
    muons.attach(tree, "Muon", basketBytes);
    electrons.attach(tree, "Electron", basketBytes);
    fill(file, tree, amount, 200, [&] {
        ++event;
        muons.generate(random, 0.1057f);
        electrons.generate(random, 0.000511f);
    });
    tree.Write();
    return tree.GetEntries();
}

} // namespace tierbench

int make_tree(const char *kind, const char *output, double sizeMb, unsigned seed, int branches = 20, int leaves = 5000,
              int basketKb = 32, const char *codec = "zstd-5", long long events = 0, long long cluster = 0)
{
    const std::map<std::string, int> settings = {{"none", 0}, {"zlib-1", 101}, {"lz4-4", 404}, {"zstd-5", 505}};
    const std::string wanted = kind, path = output, partial = path + ".partial";
    const bool ntuple = wanted == "rntuple" && events > 0 && cluster > 0;
    const bool shaped = wanted == "higgs" || ((wanted == "tree" || ntuple) && branches > 0 && leaves > 0);
    if (!shaped || !settings.count(codec) || sizeMb <= 0 || basketKb < 1 || events < 0 || cluster < 0) {
        std::fprintf(stderr, "make_tree: KIND is tree, rntuple or higgs, CODEC none, zlib-1, lz4-4 or zstd-5; numbers are positive\n");
        return 2;
    }
    // The same bytes each time: no dates, no random identifier, and another name than that under which it is made.
    TFile file((partial + "?reproducible=replica.root").c_str(), "RECREATE", "", settings.at(codec));
    if (file.IsZombie())
        return 1; // ROOT has said why
    TRandom3 random(seed + 1); // TRandom3(0) would take its seed from the clock
    const tierbench::Amount amount{sizeMb * 1e6, events, cluster};
    bool broken = false;
    try {
        events = wanted == "tree" ? tierbench::fillNumbers(file, amount, random, branches, leaves, basketKb * 1024)
                 : ntuple         ? tierbench::fillNtuple(file, amount, random, branches, leaves)
                                  : tierbench::fillEvents(file, amount, random, basketKb * 1024);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "make_tree: %s\n", error.what());
        broken = true;
    }
    file.Close();
    broken |= file.TestBit(TFile::kWriteError); // stays set, and Close writes the last 5 KB
    const long long bytes = file.GetEND();
    if (broken || std::rename(partial.c_str(), output) != 0) {
        std::fprintf(stderr, "make_tree: %s could not be written; is the disk full?\n", output);
        std::remove(partial.c_str());
        return 1;
    }
    std::printf("{\"path\": \"%s\", \"bytes\": %lld, \"events\": %lld}\n", output, bytes, events);
    return 0;
}

#ifndef __CLING__
int main(int argc, char **argv)
{
    if (argc < 5 || argc > 11) {
        std::fprintf(stderr, "usage: make_tree tree|rntuple|higgs OUTPUT SIZE_MB SEED [BRANCHES] [LEAVES] [BASKET_KB] [CODEC] [EVENTS] [CLUSTER]\n");
        return 2;
    }
    return make_tree(argv[1], argv[2], std::atof(argv[3]), std::strtoul(argv[4], nullptr, 10), argc > 5 ? std::atoi(argv[5]) : 20,
                     argc > 6 ? std::atoi(argv[6]) : 5000, argc > 7 ? std::atoi(argv[7]) : 32, argc > 8 ? argv[8] : "zstd-5",
                     argc > 9 ? std::atoll(argv[9]) : 0, argc > 10 ? std::atoll(argv[10]) : 0);
}
#endif
