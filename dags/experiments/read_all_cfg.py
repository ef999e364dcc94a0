"""A cmsRun configuration that reads all of an event's products, as an analysis that uses everything would.

tierbench sets its input file and number of events; a site puts its own analysis in its place.
"""

import FWCore.ParameterSet.Config as cms  # noqa: N813 - as all of CMS calls it

process = cms.Process("READ")
process.source = cms.Source("PoolSource", fileNames=cms.untracked.vstring())
process.read = cms.EDAnalyzer("GenericConsumer", eventProducts=cms.untracked.vstring("*"))
process.path = cms.Path(process.read)
