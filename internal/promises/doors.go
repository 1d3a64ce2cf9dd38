package promises

import "maps"

// Promises are the columns.
var Promises = []Promise{
	{"off", "With `PURECUDA_POLICY=off` no driver is looked for, not even a broken one. The door does what it does without a driver."},
	{"absent", "Without a driver the work is done on the CPU, with the same result. A door that has no way to the CPU returns an error of kind `DriverLibraryUnavailable`. Nothing crashes."},
	{"faulty", "A driver that is there and broken is an error of the kind of its cause. Only a fallback that you give hides it, and then it is told."},
	{"lost", "After CUDA is lost, every call ends: on the CPU if you have given a fallback, else with the error of the loss. No call waits for the driver."},
	{"required-absent", "With `PURECUDA_POLICY=required`, absence is an error at this door, and no work goes to the CPU."},
	{"required-faulty", "With `PURECUDA_POLICY=required`, a broken driver is an error at this door, and no work goes to the CPU."},
	{"required-lost", "With `PURECUDA_POLICY=required`, a loss is an error at this door, and no work goes to the CPU."},
	{"says-so", "Whoever looks can see that the CPU did the work, and why: the answer has the reason, or the program prints it."},
	{"ctx", "A ctx that has ended is an error at once, and one that ends later ends the wait. The error is its cause. It ends no kernel, no function of yours on the CPU and no call of the driver that has begun."},
	{"bound", "What runs at the same time has a bound, and so has what waits. One more is an error, or waits for its ctx."},
	{"own-error", "An error, or a check that fails in a kernel, reaches the call that made it, and no other one."},
	{"panic", "A panic of your function is an error of its call. The next call works."},
	{"nil-error", "An error of yours whose methods panic, such as a typed nil, is the error of its call. The next call works."},
	{"goexit", "Your function may end its goroutine (`runtime.Goexit`, as `t.FailNow` does). Nothing else hangs, and the next call works."},
	{"empty", "No data is no error, and calls nothing of yours. Where it cannot mean anything, it is an error that says so."},
	{"huge", "More data than there can be room for is an error that names the limit, and not a crash."},
	{"overlap", "Input and output that share memory give the right result, or an error. They never give a wrong one."},
	{"leak", "Memory that you forgot to close is named with the line of your program that made it."},
}

// Why a promise makes no sense at a door.
const (
	noFunction = "It calls no function of yours."
	noData     = "It takes no data of yours."
	noMemory   = "It leaves nothing to close."
	noDriver   = "It runs on the CPU, and asks for no driver."
	noFallback = "It has no way to the CPU: its error says why."
	noWait     = "It takes no ctx: it waits for the driver only."
	noQueue    = "It runs on the goroutine of its caller, and nothing waits for a turn."
	noShared   = "Its calls share nothing that an error could reach."
	noOverlap  = "It takes one slice, or none."
	noLoss     = "It loses CUDA only inside of its calls: see those."
)

func not(reason string, promises ...string) map[string]string {
	all := map[string]string{}
	for _, p := range promises {
		all[p] = reason
	}
	return all
}

func all(lists ...map[string]string) map[string]string {
	joined := map[string]string{}
	for _, l := range lists {
		maps.Copy(joined, l)
	}
	return joined
}

const here = "internal/promises/promises_test.go"

// Doors are the rows.
var Doors = []Door{
	{Name: "runtime.Open", Calls: []string{"runtime.Open", "runtime.Global"}, Test: here, Not: all(
		not(noWait, "ctx"), not(noQueue, "bound"), not(noShared, "own-error"),
		not(noFunction, "panic", "nil-error", "goexit"), not(noData, "empty", "huge", "overlap"), not(noMemory, "leak"),
		not("It opens no context. What another runtime has lost shows when one is opened.", "lost", "required-lost"))},
	{Name: "Runtime.Probe", Calls: []string{"runtime.Probe", "runtime.Runtime.Probe"}, Test: here, Not: all(
		not(noFallback, "says-so"), not(noWait, "ctx"), not(noQueue, "bound"),
		not(noFunction, "panic", "nil-error", "goexit"), not(noData, "empty", "huge", "overlap"))},
	{Name: "Kernels.X", Calls: []string{"gpu/launch.Kernels.Launch"}, Test: here, Not: all(
		not(noFallback, "says-so"), not("The bound is the stream: each has its own queue in the driver.", "bound"), not(noFunction, "panic", "nil-error", "goexit"))},
	{Name: "XCPU", Calls: []string{"gpu/launch.CPU"}, Test: here, Not: all(
		not("Its name says so.", "says-so"), not("It takes no ctx: a kernel that never ends never returns.", "ctx"),
		not("It is the kernel itself, which returns no error.", "nil-error"), not(noMemory, "leak"))},
	{Name: "XAuto", Calls: []string{"gpu/launch.Module.Auto", "gpu/launch.Copies.Finish"}, Test: here, Not: all(
		not("It runs on the goroutine of its caller. The device has its queue in the driver.", "bound"),
		not(noFunction, "panic", "nil-error", "goexit"), not("It frees what it allocates.", "leak"))},
	{Name: "gpu.Run", Calls: []string{"gpu.Run", "gpu.RunBlocks"}, Test: here, Not: all(
		not("Its doc says so.", "says-so"), not("It takes no ctx: a kernel that never ends never returns.", "ctx"),
		not("It is the kernel itself, which returns no error.", "nil-error"), not(noOverlap, "overlap"), not(noMemory, "leak"))},
	{Name: "pool.Do", Calls: []string{"pool.Pool.Do"}, Test: here, Not: not(noData, "empty", "huge", "overlap")},
	{Name: "pool.Scatter", Calls: []string{"pool.Pool.Scatter"}, Test: here, Not: not("It takes numbers of items, and no memory of yours.", "overlap")},
	{Name: "pool.Map", Calls: []string{"pool.Map"}, Test: here},
	{Name: "pool.Reduce", Calls: []string{"pool.Reduce"}, Test: here, Not: not("It takes numbers of items, and no memory of yours.", "overlap")},
	{Name: "pool.Stream", Calls: []string{"pool.Stream"}, Test: here, Not: not("Its pieces are values of yours, and its buffers its own.", "overlap")},
	{Name: "pool.Batcher", Calls: []string{"pool.NewBatcher", "pool.Batcher.Do", "pool.Batcher.DoAll"}, Test: here, Not: not("It takes items by value.", "overlap")},
	{Name: "pool.Parallel", Calls: []string{"pool.Parallel"}, Test: here, Not: all(
		not("Its name says so.", "says-so"), not("It takes numbers of items, and no memory of yours.", "overlap"), not(noMemory, "leak"))},
	{Name: "kernels.Reducer", Calls: []string{"kernels.OpenReducer", "kernels.Reducer.Sum", "kernels.Reducer.Histogram256", "kernels.Reducer.Gram"}, Test: here, Not: all(
		not(noFunction, "panic", "nil-error", "goexit"), not("Its inputs are only read, and its results are new.", "overlap"), not("It has the bound of pool.Reduce, which does its work.", "bound"), not("It frees what it allocates.", "leak"))},
	{Name: "isolate.Group.Do", Calls: []string{"pool/isolate.Open", "pool/isolate.Group.Do", "pool/isolate.StateOf", "pool/isolate.Handle", "pool/isolate.Handler.Do"}, Test: here, Not: all(
		not("Its children have runtimes of their own, which lose CUDA for it.", "lost", "required-lost"))},
	program("examples/saxpy"), program("examples/gokernel"), program("examples/compile"), program("examples/overlap"), program("examples/graph"),
	program("examples/scatter"), program("examples/sort"), program("examples/stencil"), program("examples/transformer"), program("examples/isolate"), program("examples/http"),
	program("cmd/smoke"),
	{Name: "gonumblas.BLAS", Calls: []string{"libs/cublas/gonumblas.Open"}, Test: "libs/cublas/gonumblas/promises_test.go", Not: all(
		not("gonum's interfaces have no error and no ctx. Err and OnError tell of a loss, and the CPU computes.", "required-lost", "ctx"),
		not("Your function returns no error.", "nil-error"), not("It frees what it allocates.", "leak"))},
	{Name: "curand.CPU", Calls: []string{"libs/curand.NewCPU"}, Test: "libs/curand/promises_test.go", Not: all(
		not("It asks for no driver.", "lost", "required-lost"), not("Its name says so.", "says-so"),
		not("It computes on the goroutine of its caller, and waits for nothing.", "ctx", "bound"), not(noShared, "own-error"),
		not(noFunction, "panic", "nil-error", "goexit"), not("It fills a slice that there is.", "huge"), not(noOverlap, "overlap"), not(noMemory, "leak"))},
	{Name: "cusolver/cpu", Calls: []string{"libs/cusolver/cpu.CholeskyBatch", "libs/cusolver/cpu.CholeskySolveBatch", "libs/cusolver/cpu.LUBatch",
		"libs/cusolver/cpu.LUSolveBatch", "libs/cusolver/cpu.InverseBatch", "libs/cusolver/cpu.LeastSquaresBatch", "libs/cusolver/cpu.EigenBatch"},
		Test: "libs/cusolver/cpu/promises_test.go", Not: all(
			not("It asks for no driver.", "lost", "required-lost"), not("Its name says so.", "says-so"),
			not("It computes on the cores, as pool.Parallel does, and waits for no turn.", "bound"), not(noShared, "own-error"),
			not(noFunction, "panic", "nil-error", "goexit"), not(noMemory, "leak"))},
	at("libs/examples/gonum/promises_test.go", program("libs/examples/gonum")),
	at("libs/examples/regression/promises_test.go", program("libs/examples/regression")),
	{Name: "cluster.Scatter", Calls: []string{"cluster.Scatter", "cluster.Map", "cluster.Reduce", "cluster.Do", "cluster.Handler.Do", "cluster.Handler.Map"}, Test: "cluster/promises_test.go", Not: all(
		not("A caller has no driver. Its hosts have pool.Do.", "off", "absent", "faulty", "lost", "required-absent", "required-faulty", "required-lost"),
		not("Each host says how much it takes at a time, and one caller waits for its own pieces only.", "bound"),
		not("Pieces and results are copies.", "overlap"), not(noMemory, "leak"))},
	{Name: "cluster.Serve", Calls: []string{"cluster.Serve"}, Test: "cluster/promises_test.go", Not: all(
		not("It takes a group or a pool that is open: isolate.Open and pool.Open have the promise.", "faulty", "required-absent", "required-faulty"),
		not("Pieces and results are copies.", "overlap"), not("pool.Do, which its functions run in, has the promise.", "leak"))},
	at("cluster/cmd/purecuda-cluster/promises_test.go", program("cluster/cmd/purecuda-cluster")),
}

// at is a row that is tested elsewhere.
func at(test string, d Door) Door {
	d.Test = test
	return d
}

// program is the row of a program, which is tested as a process.
func program(folder string) Door {
	return Door{Name: folder, Folder: folder, Test: here, Not: all(not(noLoss, "lost", "required-lost"),
		not("A program has no callers. What it calls has the promise.", "ctx", "bound", "own-error", "panic", "nil-error", "goexit", "empty", "huge", "overlap", "leak"))}
}
