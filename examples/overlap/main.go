// Overlap hashes a file in batches, each on one of a few streams, so that while one batch is
// hashed the next one is read and uploaded. Without a GPU the cores do the same work.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const chunk = 4096 // bytes of the file for each digest; the last chunk may be shorter

func main() {
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	input := flag.String("input", self, "hash this `file`; without it, the program itself")
	streams := flag.Int("streams", 3, "how many streams: 1, 2 or 3")
	batch := flag.Int("batch", 1, "`MiB` in a batch, 1 to 256")
	flag.Parse()
	if err := check(flag.Args(), *streams, *batch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		flag.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, runtime.Global(), *input, *streams, *batch<<20); err != nil {
		log.Fatal(err)
	}
}

func check(args []string, streams, batch int) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("%q: the file is named with -input", args[0])
	case streams < 1 || streams > 3:
		return fmt.Errorf("-streams %d: want 1, 2 or 3", streams)
	case batch < 1 || batch > 256:
		return fmt.Errorf("-batch %d: want 1 to 256", batch)
	}
	return nil
}

func run(ctx context.Context, out io.Writer, rt *runtime.Runtime, name string, streams, batch int) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fmt.Errorf("%s is empty: there is nothing to hash", name)
	}
	// The CPU always does it, to compare.
	start := time.Now()
	want, err := onCPU(ctx, data)
	if err != nil {
		return err
	}
	took := time.Since(start)

	got, where := want, "CPU, all cores"
	backend, err := rt.Probe("overlap")
	if err == nil {
		where = fmt.Sprintf("GPU, %d streams", streams)
		got, took, err = onGPU(ctx, backend, data, streams, batch)
	}
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		fmt.Fprintln(out, "not on a GPU:", err)
	} else if err != nil {
		return err // CUDA is there and broken: say so
	}
	if len(got) != len(want) {
		return fmt.Errorf("the GPU made %d digests, and the CPU %d", len(got), len(want))
	}
	root := sha256.New()
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("chunk %d: the GPU says %x, and the CPU %x", i, got[i], want[i])
		}
		root.Write(got[i][:])
	}
	fmt.Fprintf(out, "%x\n", root.Sum(nil))
	fmt.Fprintf(out, "%s: %d bytes in %v, %.2f GB/s\n", where, len(data), took.Round(10*time.Microsecond), float64(len(data))/1e9/took.Seconds())
	return nil
}

func onCPU(ctx context.Context, data []byte) ([]kernels.Digest, error) {
	chunks := chunksOf(len(data))
	digests := make([]kernels.Digest, len(chunks))
	_, err := pool.Parallel(ctx, len(chunks), func(_ context.Context, lo, hi int) error {
		return kernels.SHA256ChunksCPU(data, chunks[lo:hi], 0, digests[lo:hi])
	})
	return digests, err
}

// chunksOf says where the chunks of n bytes lie.
func chunksOf(n int) []kernels.Chunk {
	chunks := make([]kernels.Chunk, 0, (n+chunk-1)/chunk)
	for at := 0; at < n; at += chunk {
		chunks = append(chunks, kernels.Chunk{Offset: uint64(at), Length: uint32(min(chunk, n-at))})
	}
	return chunks
}
