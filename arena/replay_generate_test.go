package arena_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var writeLogs = flag.Bool("write-logs", false, "write the allocation logs in testdata anew")

// TestLogsAreGenerated keeps the logs what the functions below make:
//
//	go test ./arena -run TestLogsAreGenerated -write-logs
func TestLogsAreGenerated(t *testing.T) {
	for name, write := range map[string]func(*logWriter){
		"job": writeJob, "training": writeTraining, "sizes": writeSizes, "growing": writeGrowing, "service": writeService,
	} {
		w := &logWriter{}
		write(w)
		path := "testdata/" + name + ".log"
		if *writeLogs {
			require.NoError(t, os.WriteFile(path, w.out.Bytes(), 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(have, w.out.Bytes()), "%s is not what its generator makes: use -write-logs", path)
		assert.Less(t, len(have), 200<<10)
	}
}

// logWriter writes a log.
type logWriter struct {
	out  bytes.Buffer
	free []int // IDs
	ids  int
}

func (w *logWriter) comment(format string, args ...any) {
	fmt.Fprintf(&w.out, "# "+format+"\n", args...)
}

func (w *logWriter) alloc(stream int, bytes uint64) (id int) {
	if n := len(w.free); n > 0 {
		id, w.free = w.free[n-1], w.free[:n-1]
	} else {
		id = w.ids
		w.ids++
	}
	fmt.Fprintf(&w.out, "a %d %d %d\n", id, stream, bytes)
	return id
}

func (w *logWriter) release(id, stream int) {
	fmt.Fprintf(&w.out, "f %d %d\n", id, stream)
	w.free = append(w.free, id)
}

func (w *logWriter) wait(stream, other int) { fmt.Fprintf(&w.out, "w %d %d\n", stream, other) }

// writeJob is the main job over folders of files: 16 workers, each with a stream, take
// batches of 16 MiB, the last one of a folder is shorter. A batch has its data, 12 bytes for
// each chunk of 4 KiB, padded to 16, and its digest of 32 bytes (cmd/smoke/gpu_engine.go).
// Half of the workers have the next batch on its way before they give the last one back.
func writeJob(w *logWriter) {
	w.comment("The main job: batches of 16 MiB with chunks of 4 KiB on the streams of 16 workers.")
	const workers, batch, chunk = 16, 16 << 20, 4 << 10
	r := rand.New(rand.NewPCG(1, 1))
	type buffers [3]int
	held := make([][]buffers, workers)
	giveBack := func(worker int) {
		for _, id := range held[worker][0] {
			w.release(id, worker)
		}
		held[worker] = held[worker][1:]
	}
	for range 12 { // folders
		batches := 16 + r.IntN(60)
		for i := range batches {
			size := uint64(batch)
			if i == batches-1 {
				size = 1 + r.Uint64N(batch)
			}
			worker := i % workers
			chunks := (size + chunk - 1) / chunk
			held[worker] = append(held[worker], buffers{
				w.alloc(worker, size), w.alloc(worker, chunks*16), w.alloc(worker, chunks*32)})
			if len(held[worker]) > 1+worker%2 {
				giveBack(worker)
			}
		}
		for worker := range workers {
			for len(held[worker]) > 0 {
				giveBack(worker)
			}
		}
	}
}

// writeTraining is like training a transformer of 12 layers: weights and optimizer states
// stay, a step keeps the activations of the forward pass until the backward pass uses them,
// in between there is short-lived room for work, and gradients are reduced on a second
// stream. A third one brings the next input. Sequences are of a few different lengths.
func writeTraining(w *logWriter) {
	w.comment("Training-like: stream 0 computes, 1 reduces gradients, 2 brings the input.")
	const layers, hidden, heads, batch, vocabulary = 12, 768, 12, 8, 32000
	const compute, reduce, input = 0, 1, 2
	const half, single = 2, 4 // bytes
	r := rand.New(rand.NewPCG(2, 2))
	layerWeights := []uint64{hidden * 3 * hidden, 3 * hidden, hidden * hidden, hidden, hidden * 4 * hidden, 4 * hidden,
		4 * hidden * hidden, hidden, hidden, hidden}
	var lasting []int
	keep := func(elements uint64) {
		// The weight in half and single precision, and two moments.
		for _, bytes := range []uint64{half, single, single, single} {
			lasting = append(lasting, w.alloc(compute, elements*bytes))
		}
	}
	keep(vocabulary * hidden)
	for range layers {
		for _, elements := range layerWeights {
			keep(elements)
		}
	}
	lengths := []uint64{128, 192, 256, 320, 384, 448, 512}
	for range 20 { // steps
		length := lengths[r.IntN(len(lengths))]
		tokens := batch * length
		next := w.alloc(input, tokens*8)
		w.wait(compute, input)
		work := func(bytes uint64) { w.release(w.alloc(compute, bytes), compute) }
		var saved [][]int
		for range layers {
			save := func(elements uint64) int { return w.alloc(compute, elements*half) }
			layer := []int{save(tokens * hidden), w.alloc(compute, tokens*single), save(tokens * 3 * hidden),
				w.alloc(compute, batch*heads*length*single)}
			work(batch * heads * length * length * half) // scores
			work(8 << 20)                                // the matrix library's
			layer = append(layer, save(tokens*hidden), save(tokens*4*hidden), save(tokens*4*hidden))
			saved = append(saved, layer)
		}
		logits := w.alloc(compute, tokens*vocabulary*half)
		loss := w.alloc(compute, 4)
		gradient := w.alloc(compute, tokens*hidden*half)
		w.release(logits, compute)
		for i := len(saved) - 1; i >= 0; i-- {
			before := w.alloc(compute, tokens*hidden*half)
			work(tokens * 4 * hidden * half)
			work(8 << 20)
			var gradients []int
			for _, elements := range layerWeights {
				gradients = append(gradients, w.alloc(compute, elements*half))
			}
			for j := len(saved[i]) - 1; j >= 0; j-- {
				w.release(saved[i][j], compute)
			}
			w.release(gradient, compute)
			gradient = before
			// They are reduced behind this layer, and applied there as well.
			w.wait(reduce, compute)
			bucket := w.alloc(reduce, 8<<20)
			for _, g := range gradients {
				w.release(g, reduce)
			}
			w.release(bucket, reduce)
		}
		w.release(gradient, compute)
		w.release(loss, compute)
		w.wait(compute, reduce)
		w.wait(input, compute)
		w.release(next, input)
	}
	for _, id := range lasting {
		w.release(id, compute)
	}
}

// writeSizes is a program with as many sizes as allocations, from 1 KiB to 64 MiB, that live for different times.
func writeSizes(w *logWriter) {
	w.comment("As many sizes as allocations, of which about 200 are there at a time.")
	r := rand.New(rand.NewPCG(3, 3))
	var live []int
	for range 3000 {
		live = append(live, w.alloc(0, uint64(1<<10*math.Exp(r.Float64()*math.Log(64<<10)))))
		for len(live) > 100+r.IntN(200) {
			i := r.IntN(len(live))
			if r.IntN(2) == 0 {
				i = len(live) - 1 // most are freed soon
			}
			w.release(live[i], 0)
			live = append(live[:i], live[i+1:]...)
		}
	}
	for _, id := range live {
		w.release(id, 0)
	}
}

// writeGrowing has tensors that grow, as the keys and values of sequences do: a longer one is allocated, filled from the
// old one, which is freed. Sequences end at different lengths, and others begin.
func writeGrowing(w *logWriter) {
	w.comment("16 sequences on one stream, each with a tensor that grows by 64 tokens of 256 KiB.")
	const sequences, token, more = 16, 256 << 10, 64
	r := rand.New(rand.NewPCG(4, 4))
	var tensor, length, end [sequences]int
	for i := range sequences {
		end[i] = more * (1 + r.IntN(12))
	}
	for range 2000 {
		i := r.IntN(sequences)
		w.release(w.alloc(0, uint64(sequences*more*(1+r.IntN(8)))<<10), 0) // room for work
		if length[i] >= end[i] {
			w.release(tensor[i], 0)
			length[i], end[i] = 0, more*(1+r.IntN(12))
			continue
		}
		longer := w.alloc(0, uint64(token*(length[i]+more)))
		if length[i] > 0 {
			w.release(tensor[i], 0)
		}
		tensor[i], length[i] = longer, length[i]+more
	}
	for i := range sequences {
		if length[i] > 0 {
			w.release(tensor[i], 0)
		}
	}
}

// writeService is a service: requests on 64 streams, each with its input, room for work and a result, of sizes that no two
// requests share. A few dozen are under way at a time.
func writeService(w *logWriter) {
	w.comment("A service with 64 streams. A request has four blocks of 4 KiB to 16 MiB on its stream.")
	const streams = 64
	r := rand.New(rand.NewPCG(5, 5))
	var held [streams][]int
	for range 2500 {
		s := r.IntN(streams)
		if len(held[s]) > 0 {
			for _, id := range held[s] {
				w.release(id, s)
			}
			held[s] = nil
			if r.IntN(2) == 0 {
				continue
			}
		}
		input := uint64(4 << 10 * math.Exp(r.Float64()*math.Log(4<<10)))
		for _, bytes := range []uint64{input, 2 * input, input / 2, 32 + input/1000} {
			held[s] = append(held[s], w.alloc(s, bytes))
		}
	}
	for s, ids := range held {
		for _, id := range ids {
			w.release(id, s)
		}
	}
}
