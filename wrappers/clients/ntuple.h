// An RNTuple's columns, read event by event, and what that took; with ROOT 6.40 or newer.
#ifndef TIERBENCH_NTUPLE_H
#define TIERBENCH_NTUPLE_H

#include <RVersion.h>

#include <stdexcept>
#include <string>

namespace tierbench {

// What reading took; columnBytes is what the file itself says of the columns, gapBytes what lay between and came along.
struct Reading {
    long long bytes = 0, calls = 0, vectorReads = 0, clusters = 0, openingBytes = 0, columnBytes = 0, gapBytes = 0;
};

} // namespace tierbench

#if ROOT_VERSION_CODE >= ROOT_VERSION(6, 40, 0)
#include <ROOT/RNTupleReadOptions.hxx>
#include <ROOT/RNTupleReader.hxx>

#include <vector>

namespace tierbench {

class Ntuple {
public:
    // Its cluster cache fetches so many clusters at once; 0: there is none, and each page is fetched by itself.
    Ntuple(const std::string &name, const std::string &url, int clusters) : fetchedAtOnce_(clusters)
    {
        ROOT::RNTupleReadOptions options;
        options.SetClusterCache(clusters ? ROOT::RNTupleReadOptions::EClusterCache::kOn : ROOT::RNTupleReadOptions::EClusterCache::kOff);
        if (clusters)
            ROOT::Internal::RNTupleReadOptionsManip::SetClusterBunchSize(options, clusters);
        reader_ = ROOT::RNTupleReader::Open(name, url, options);
        reader_->EnableMetrics();
    }

    long long entries() const { return reader_->GetNEntries(); }

    Reading reading() const
    {
        const auto &descriptor = reader_->GetDescriptor();
        Reading reading;
        reading.clusters = descriptor.GetNClusters();
        reading.openingBytes = descriptor.GetOnDiskHeaderSize() + descriptor.GetOnDiskFooterSize();
        reading.columnBytes = columnBytes_;
        reading.gapBytes = counter("szReadOverhead");
        reading.bytes = reading.openingBytes + counter("szReadPayload") + reading.gapBytes;
        reading.vectorReads = counter("nReadV");
        reading.calls = fetchedAtOnce_ ? reading.vectorReads : counter("nRead"); // else ranges of vectors
        return reading;
    }

    int choose(double share)
    {
        const auto &descriptor = reader_->GetDescriptor();
        int chosen = 0, number = 0;
        for (const auto &field : descriptor.GetTopLevelFields()) {
            if (number++ * share + 1e-9 < chosen)
                continue;
            ++chosen;
            views_.push_back(reader_->GetView<void>(field.GetId()));
            eventBytes_ += views_.back().GetField().GetValueSize();
            addColumns(field.GetId());
        }
        return chosen;
    }

    long long read(long long event)
    {
        for (auto &view : views_)
            view(event);
        return eventBytes_;
    }

private:
    void addColumns(ROOT::DescriptorId_t field)
    {
        const auto &descriptor = reader_->GetDescriptor();
        for (const auto &column : descriptor.GetColumnIterable(field))
            for (const auto &cluster : descriptor.GetClusterIterable())
                if (!column.IsAliasColumn() && cluster.ContainsColumn(column.GetPhysicalId()))
                    for (const auto &page : cluster.GetPageRange(column.GetPhysicalId()).GetPageInfos())
                        columnBytes_ += page.GetLocator().GetNBytesOnStorage() + (page.HasChecksum() ? 8 : 0);
        for (const auto &part : descriptor.GetFieldIterable(field))
            addColumns(part.GetId());
    }

    long long counter(const std::string &name) const
    {
        const auto *found = reader_->GetMetrics().GetCounter("RNTupleReader.RPageSourceFile." + name);
        return found ? found->GetValueAsInt() : 0;
    }

    int fetchedAtOnce_;
    std::unique_ptr<ROOT::RNTupleReader> reader_;
    std::vector<ROOT::RNTupleView<void>> views_;
    long long eventBytes_ = 0, columnBytes_ = 0;
};

} // namespace tierbench

#else
namespace tierbench {

class Ntuple {
public:
    Ntuple(const std::string &, const std::string &, int) { throw std::runtime_error("this ROOT is too old to read an RNTuple"); }
    long long entries() const { return 0; }
    Reading reading() const { return {}; }
    int choose(double) { return 0; }
    long long read(long long) { return -1; }
};

} // namespace tierbench
#endif

#endif
