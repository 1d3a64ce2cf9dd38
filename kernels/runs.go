//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// ReduceByKey combines the values of each run of equal keys, on a device. A line makes one for the types of a program:
// //purecuda:instantiate kernels.ReduceByKey[uint32, Point, Sum]. The order of the operations depends on the place of the
// elements alone, so floats give the same bits in each run, on every device. A value has at most 1,480 bytes. ReduceByKey is safe for concurrent use, each goroutine with a
// stream of its own.
type ReduceByKey[K comparable, V any, O block.Op[V]] struct{ primitive }

// RunLengths counts the elements of each run of equal ones, on a device: //purecuda:instantiate kernels.RunLengths[uint32] makes
// one for a type of a program. A NaN is a run of its own, as == says. It is safe for concurrent use, each goroutine with a stream of its own.
type RunLengths[K comparable] struct{ primitive }

// Of is called by what gpuc writes.
func (ReduceByKey[K, V, O]) Of(k *launch.Kernels, first int) ReduceByKey[K, V, O] {
	return ReduceByKey[K, V, O]{primitive{k, first}}
}

// Of is called by what gpuc writes.
func (RunLengths[K]) Of(k *launch.Kernels, first int) RunLengths[K] {
	return RunLengths[K]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (ReduceByKey[K, V, O]) kernelReduce(t *gpu.Thread, op O, wide bool, outKeys []K, outValues []V, keys []K, in []V, count, words []uint64, values []tiles.Open[V]) {
	tiles.ByKey(t, op, tiles.Values[V]{V: in}, wide, outKeys, outValues, keys, count, words, values)
}

//purecuda:kernel block=256 checks=off
func (ReduceByKey[K, V, O]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

//purecuda:kernel block=256 checks=off
func (RunLengths[K]) kernelCount(t *gpu.Thread, wide bool, outKeys []K, lengths []uint32, keys []K, count, words []uint64, values []tiles.Open[uint32]) {
	tiles.ByKey(t, block.Add[uint32]{}, tiles.Ones{}, wide, outKeys, lengths, keys, count, words, values)
}

//purecuda:kernel block=256 checks=off
func (RunLengths[K]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

// Scratch is how many bytes n elements need beside them.
func (ReduceByKey[K, V, O]) Scratch(n int) int { return runsScratch[K, V](n) }

// Scratch is how many bytes n elements need beside them.
func (RunLengths[K]) Scratch(n int) int { return runsScratch[K, uint32](n) }

func runsScratch[K, V any](n int) int {
	return totalsBytes[tiles.Open[V]](ceil(n, tiles.RunTile(max(1, sizeOf[K]()), sizeOf[V]())))
}

// Launch copies the last key of each run to the begin of outKeys, and its values, combined, to the begin of outValues. It sets the
// one element of count to how many runs there are. Both have room for all of keys, and neither is keys or values. There are at
// most 2^32-1 keys. The scratch memory is that of the caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k ReduceByKey[K, V, O]) Launch(s *runtime.Stream, op O, outKeys *runtime.Ref[K], outValues *runtime.Ref[V], keys *runtime.Ref[K], values *runtime.Ref[V], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	if err := keysAndValues(keys.Len(), values.Len()); err != nil {
		return err
	}
	v, n := slice(values, false)
	return byKey(s, ofKeys, k.primitive, aligned(values), []runtime.Arg{runtime.Struct(&op)}, []runtime.Arg{v, n}, outKeys, outValues, keys, launch.Device("values", values, false), count, scratch)
}

// Launch copies the last element of each run to the begin of out, and how many it has to the begin of lengths. It sets the one
// element of count to how many runs there are. Both have room for all of in, and are not in. There are at most 2^32-1 elements. The scratch
// memory is that of the caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k RunLengths[K]) Launch(s *runtime.Stream, out *runtime.Ref[K], lengths *runtime.Ref[uint32], in *runtime.Ref[K], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	return byKey(s, ofRuns, k.primitive, true, nil, nil, out, lengths, in, launch.Span{}, count, scratch)
}

// runNames are the operation, and what its caller names what comes out and what goes in.
type runNames struct{ name, out, values, in string }

var (
	ofKeys = runNames{"reduce by key", "outKeys", "outValues", "keys"}
	ofRuns = runNames{"run lengths", "out", "lengths", "in"}
)

func byKey[K, V any](s *runtime.Stream, of runNames, k primitive, wide bool, op, source []runtime.Arg, outKeys *runtime.Ref[K], outValues *runtime.Ref[V], keys *runtime.Ref[K], values launch.Span, count *runtime.Ref[uint64], given *runtime.Ref[byte]) error {
	if err := k.loaded(of.name); err != nil {
		return err
	}
	n := keys.Len()
	if err := runsLengths[K, V](of, n, outKeys.Len(), outValues.Len()); err != nil {
		return err
	}
	switch {
	case count.Len() != 1:
		return invalidArgument("%s: the count has %d elements, want 1", of.name, count.Len())
	case n == 0:
		if err := usable(outKeys, keys, outValues); err != nil {
			return err
		}
		return runtime.Zero(s, count)
	}
	if err := launch.Apart(of.name, launch.Device(of.out, outKeys, true), launch.Device(of.values, outValues, true), launch.Device(of.in, keys, false), values,
		launch.Device("count", count, true), launch.Device("scratch", given, true)); err != nil {
		return err
	}
	c, err := newScratch(of.name, s, runsScratch[K, V](n), given)
	if err != nil {
		return err
	}
	defer c.close()
	grid := ceil(n, tiles.RunTile(sizeOf[K](), sizeOf[V]()))
	words, open, err := cutTotals[tiles.Open[V]](c, s, k, 1, grid)
	if err != nil {
		return err
	}
	a, an := slice(outKeys, true)
	b, bn := slice(outValues, true)
	i, in := slice(keys, false)
	args := append(op, launch.Bool(wide && aligned(keys)), a, an, b, bn, i, in)
	args = append(args, source...)
	x, xn := slice(count, true)
	y, yn := slice(words, true)
	z, zn := slice(open, true)
	return k.launch(0, s, grid, tiles.TileThreads, tiles.RunShared(sizeOf[K](), sizeOf[V]()), append(args, x, xn, y, yn, z, zn)...)
}

// keysAndValues says that each key has a value.
func keysAndValues(keys, values int) error {
	if keys != values {
		return invalidArgument("reduce by key: %d keys and %d values", keys, values)
	}
	return nil
}

// runsLengths says what is wrong with slices where the runs of n elements go to.
func runsLengths[K, V any](of runNames, n, out, values int) error {
	switch {
	case out < n || values < n:
		return invalidArgument("%s: %s has room for %d and %s for %d, and there can be %d runs", of.name, of.out, out, of.values, values, n)
	case sizeOf[K]() == 0 || sizeOf[V]() == 0:
		return invalidArgument("%s: the elements have no bytes", of.name)
	case uint64(n) > math.MaxUint32:
		return invalidArgument("%s: %s has %d elements, at most %d", of.name, of.in, n, uint32(math.MaxUint32))
	}
	return nil
}

// runsOnCPU says what is wrong with the slices of a form for the CPU.
func runsOnCPU[K, V any](of runNames, outKeys []K, outValues []V, keys []K, values launch.Span) error {
	if err := runsLengths[K, V](of, len(keys), len(outKeys), len(outValues)); err != nil {
		return err
	}
	return launch.Apart(of.name, launch.Host(of.out, outKeys, true), launch.Host(of.values, outValues, true), launch.Host(of.in, keys, false), values)
}

// ReduceByKeyCPU is ReduceByKey on the CPU. It returns how many runs there are. What comes out has room for all that goes in, and
// overlaps none of it: else nothing is written, and there is an error.
func ReduceByKeyCPU[K comparable, V any, O block.Op[V]](op O, outKeys []K, outValues []V, keys []K, values []V) (int, error) {
	if err := keysAndValues(len(keys), len(values)); err != nil {
		return 0, err
	}
	if err := runsOnCPU(ofKeys, outKeys, outValues, keys, launch.Host("values", values, false)); err != nil {
		return 0, err
	}
	n, zero, fold := 0, op.Zero(), folds[V](op)
	for i := 0; i < len(keys); n++ {
		begin, key := i, keys[i]
		for i++; i < len(keys) && keys[i] == key; i++ {
		}
		outKeys[n], outValues[n] = key, fold(zero, values[begin:i], nil)
	}
	return n, nil
}

// RunLengthsCPU is RunLengths on the CPU. It returns how many runs there are. What comes out has room for all of in, and does not
// overlap it: else nothing is written, and there is an error.
func RunLengthsCPU[K comparable](out []K, lengths []uint32, in []K) (int, error) {
	if err := runsOnCPU(ofRuns, out, lengths, in, launch.Span{}); err != nil {
		return 0, err
	}
	n := 0
	for i := 0; i < len(in); n++ {
		begin := i
		for i++; i < len(in) && in[i] == in[i-1]; i++ {
		}
		out[n], lengths[n] = in[i-1], uint32(i-begin)
	}
	return n, nil
}
