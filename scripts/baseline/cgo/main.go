// Cgo measures what a call of the CUDA driver costs through cgo, for comparison with
// the call layer of purecuda and with C. It is a module of its own, because purecuda
// has no cgo in it.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>

typedef int (*version_fn)(int *);

static void *find(void) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	return lib ? dlsym(lib, "cuDriverGetVersion") : 0;
}
static int get_version(void *fn, int *version) { return ((version_fn)fn)(version); }
*/
import "C"

import (
	"flag"
	"fmt"
	"os"
	"time"
	"unsafe"
)

func main() {
	benchtime := flag.Duration("benchtime", time.Second, "how long to measure")
	flag.Parse()
	fn := C.find()
	if fn == nil {
		fmt.Fprintln(os.Stderr, "no CUDA driver")
		os.Exit(3)
	}
	n, took := 1000, time.Duration(0)
	for took < *benchtime {
		n *= 2
		took = measure(fn, n)
	}
	fmt.Printf("BenchmarkHardwareCall/fn=cuDriverGetVersion/impl=cgo\t%d\t%.1f ns/op\n", n, float64(took.Nanoseconds())/float64(n))
}

func measure(fn unsafe.Pointer, n int) time.Duration {
	start := time.Now()
	for range n {
		var version C.int
		if C.get_version(fn, &version) != 0 {
			fmt.Fprintln(os.Stderr, "cuDriverGetVersion failed")
			os.Exit(1)
		}
	}
	return time.Since(start)
}
