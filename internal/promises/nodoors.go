package promises

// NoDoors are the calls that look like doors by the rule of TestDoorsAreAll, and the programs, by the reason why they are
// none.
var NoDoors = map[string][]string{
	"The work on a stream, and the waits for it, have no way to the CPU. Their errors reach the door that they are called in:": {
		"runtime.Upload", "runtime.Upload2D", "runtime.Upload3D", "runtime.UploadNew", "runtime.Download", "runtime.Download2D", "runtime.Download3D",
		"runtime.DownloadNew", "runtime.Variable.Upload", "runtime.Variable.Download", "runtime.ExportIPC", "runtime.Stream.Synchronize", "runtime.Event.Synchronize",
		"runtime.Stream.AfterFunc", "runtime.Stream.Check", "runtime.Context.NewChecks", "runtime.Stream.LaunchHostFunc", "runtime.Stream.Capture", "runtime.Context.BuildGraph", "runtime.GraphBuilder.Add", "runtime.GraphBuilder.If", "runtime.GraphBuilder.While", "runtime.Stream.Submit", "runtime.Context.Do", "runtime.Context.NewLibraryHandle",
		"runtime.Context.Compile", "runtime.Runtime.Preload"},
	"The calls over several devices, which are launches and a wait:": {"kernels.ExclusiveScanAll", "kernels.ScanAll", "kernels.SortAll", "kernels.SortPairsAll", "kernels.StableSortAll"},
	"The launches of primitives, which are as a launch of Kernels.X:": {
		"kernels.Histogram.Launch", "kernels.Partition.Launch", "kernels.Reduce.Launch", "kernels.ReduceByKey.Launch", "kernels.RunLengths.Launch", "kernels.Scan.Exclusive", "kernels.Scan.Inclusive",
		"kernels.Search.Lower", "kernels.Search.Upper", "kernels.SegmentedReduce.Launch", "kernels.SegmentedSort.Launch", "kernels.Select.Launch", "kernels.Sort.Launch", "kernels.SortPairs.Launch",
		"kernels.StableSort.Launch", "kernels.TopK.Largest", "kernels.TopK.Smallest", "kernels.Unique.Launch",
	},
	"The launches of other kernels that stand ready, which are as well:": {
		"kernels.Attention.Launch", "kernels.Decode.Launch", "kernels.LayerNorm.Launch", "kernels.RMSNorm.Launch", "kernels.Softmax.Launch", "kernels.Gemm.Launch", "kernels.GemmTo.Launch", "kernels.GemmWith.Launch",
		"kernels.Gram.Launch", "kernels.Histogram256.Launch", "kernels.SHA256Chunks.Launch", "kernels.SHA256Rounds.Launch", "kernels.Saxpy.Launch", "kernels.Sum.Launch", "kernels.VectorAdd.Launch",
	},

	"What manages devices, and does no work:": {"runtime.Context.Reset", "runtime.Runtime.Revive", "runtime.Runtime.OneIsland", "runtime.Context.OnTrim", "runtime.Runtime.Quarantine",
		"pool.Pool.Prepare", "pool.BreakEven.Learn", "pool.BreakEven.Measure", "pool.NewBreakEven"},
	"What opens, closes and is told, around the doors:": {"pool.Open", "pool.PerDevice", "pool.PerStream", "pool.Pool.Shutdown", "pool.Batcher.Shutdown", "pool/isolate.Main", "pool/isolate.Group.Shutdown", "pool/isolate.Group.Drop", "cluster.Open", "cluster.Cluster.Put", "cluster.Cluster.Queue", "runtime.Keep",
		"runtime.Runtime.TraceParent", "runtime.Runtime.TraceRequest", "runtime.Stream.SetTraceContext"},
	"Plain Go:": {"kernels.AttentionCPU", "kernels.DecodeCPU", "kernels.LayerNormCPU", "kernels.RMSNormCPU", "kernels.SoftmaxCPU", "kernels.GemmCPU", "kernels.GemmToCPU", "kernels.GemmWithCPU", "kernels.GramPartialsCPU", "kernels.Histogram256CPU", "kernels.HistogramCPU", "kernels.PartitionCPU", "kernels.ReduceByKeyCPU", "kernels.RunLengthsCPU", "kernels.SHA256ChunksCPU", "kernels.SHA256RoundsCPU", "kernels.SaxpyCPU",
		"kernels.ScanCPU", "kernels.SegmentedReduceCPU", "kernels.SegmentedSortCPU", "kernels.SumPartialsCPU", "kernels.TopKCPU", "kernels.VectorAddCPU"},
	"What a kernel calls:":       {"gpu.GroupReduce"},
	"Programs that need no GPU:": {"cmd/purecuda-static", "examples/cluster", "examples/deploy", "examples/testing"},
}
