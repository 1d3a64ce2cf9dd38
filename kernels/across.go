//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"context"
	"fmt"
	"math"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Part is what one device has of the elements of a call over several devices.
type Part[P, T any] struct {
	Kernels P               // loaded in the context of the device
	Stream  *runtime.Stream // of the device
	Data    *runtime.Ref[T] // on the device
}

// SortAcross has the kernels of [SortAll]: //purecuda:instantiate kernels.SortAcross[uint32] makes one, to be loaded on each device.
type SortAcross[K Key] struct{ primitive }

// Of is called by what gpuc writes.
func (SortAcross[K]) Of(k *launch.Kernels, first int) SortAcross[K] {
	return SortAcross[K]{primitive{k, first}}
}

//purecuda:kernel block=384 checks=off
func (SortAcross[K]) kernelCount(t *gpu.Thread, o tiles.Order, portions int, work, status []uint32, keys []K) {
	tiles.CountKeys(t, o, portions, work, status, keys)
}

//purecuda:kernel block=384 blocks=2 checks=off
func (SortAcross[K]) kernelPass(t *gpu.Thread, p tiles.Pass, outKeys, keys []K, work, status, next []uint32) {
	tiles.SortKeys[K, struct{}](t, p, outKeys, keys, nil, nil, work, status, next)
}

//purecuda:kernel block=384 checks=off
func (SortAcross[K]) kernelZero(t *gpu.Thread, words []uint32) { tiles.Clear(t, words) }

//purecuda:kernel block=256 checks=off
func (SortAcross[K]) kernelCut(t *gpu.Thread, o tiles.Order, shift uint32, counts, prefixes []uint64, sorted []K) {
	tiles.CutKeys(t, o, shift, counts, prefixes, sorted)
}

//purecuda:kernel block=256 checks=off
func (SortAcross[K]) kernelSplit(t *gpu.Thread, o tiles.Order, splits []uint64, first, second []K) {
	tiles.SplitKeys(t, o, splits, first, second)
}

//purecuda:kernel block=256 checks=off
func (SortAcross[K]) kernelMerge(t *gpu.Thread, o tiles.Order, out, first, second []K, splits []uint64) {
	tiles.MergeKeys(t, o, out, first, second, splits)
}

// SortAll sorts keys that several devices have. The keys of all parts, one part after another, are then in ascending order, as
// [Sort] orders them. Each part keeps its length, so the result is the same however the keys are divided. A part may
// be empty, and has at most 2^32-1 keys. Two parts may be on one device, each with a stream of its own.
//
// Each device sorts its keys, gets from the others what belongs into its part, and merges. Copies between devices use their direct link
// if there is one. For that time a device needs room for twice the keys of its part, and some more, from the arena of its stream.
//
// SortAll puts its work after what is on the streams, and waits until all of it is done. After an error, the loss of a device, or when
// ctx ends, keys may be missing and others may be there twice. Wrong arguments change nothing. No stream may be captured. Without a
// device [slices.Sort] does the same.
func SortAll[K Key](ctx context.Context, parts ...Part[SortAcross[K], K]) error {
	a := sortingAll[K]{parts: parts}
	if err := a.check(ctx); err != nil {
		return err
	}
	for i, p := range parts {
		if err := sortInto[K, struct{}](p.Stream, p.Kernels.primitive, p.Data, p.Data, nil, nil, nil); err != nil {
			return ofPart("sort", i, err)
		}
	}
	if len(parts) > 1 {
		if err := a.exchange(ctx); err != nil {
			return err
		}
	}
	return synchronizeAll("sort", ctx, parts)
}

// ofPart says whose error it is.
func ofPart(name string, part int, err error) error {
	return fmt.Errorf("%s: part %d: %w", name, part, err)
}

// synchronizeAll waits for the work of all parts.
func synchronizeAll[P, T any](name string, ctx context.Context, parts []Part[P, T]) error {
	for i, p := range parts {
		if err := p.Stream.Synchronize(ctx); err != nil {
			return ofPart(name, i, err)
		}
	}
	return nil
}

// checkParts says what is wrong with the parts of a call.
func checkParts[P interface{ loaded(string) error }, T any](name string, ctx context.Context, parts []Part[P, T]) error {
	if ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "%s: the ctx is nil", name)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var spans []launch.Span
	for i, p := range parts {
		if err := p.Kernels.loaded(name); err != nil {
			return ofPart(name, i, err)
		}
		if err := nothing(p.Stream, p.Data); err != nil {
			return ofPart(name, i, err)
		}
		for j, q := range parts[:i] {
			if q.Stream == p.Stream {
				return invalidArgument("%s: parts %d and %d have the same stream: give each its own", name, j, i)
			}
		}
		spans = append(spans, launch.Device(fmt.Sprintf("part %d", i), p.Data, true))
	}
	return launch.Apart(name, spans...)
}

// sortingAll is a call of SortAll.
type sortingAll[K Key] struct {
	parts []Part[SortAcross[K], K]
	ends  []int // of each part, among all keys
}

func (a *sortingAll[K]) check(ctx context.Context) error {
	if err := checkParts("sort", ctx, a.parts); err != nil {
		return err
	}
	end := 0
	for i, p := range a.parts {
		if uint64(p.Data.Len()) > math.MaxUint32 {
			return invalidArgument("sort: part %d has %d keys, at most %d: give it to more devices", i, p.Data.Len(), uint32(math.MaxUint32))
		}
		end += p.Data.Len()
		a.ends = append(a.ends, end)
	}
	return nil
}

// exchange gives each part what belongs there. Each is sorted by itself.
func (a *sortingAll[K]) exchange(ctx context.Context) error {
	cuts, err := a.cuts(ctx)
	if err != nil {
		return err
	}
	got := make([]*runtime.Ref[K], len(a.parts))
	runs := make([][]int, len(a.parts)) // the ends of what each part got
	for i, p := range a.parts {
		if p.Data.Len() == 0 {
			continue
		}
		if got[i], err = runtime.Alloc[K](p.Stream, p.Data.Len()); err != nil {
			return ofPart("sort", i, err)
		}
		defer func() { _ = got[i].Close() }() // what goes wrong with that changes no result
		end := 0
		for j, q := range a.parts {
			from, to := cuts[i][j], cuts[i+1][j]
			if from == to {
				continue
			}
			if err := runtime.Copy(p.Stream, got[i].Slice(end, end+to-from), q.Data.Slice(from, to)); err != nil {
				return ofPart("sort", i, err)
			}
			end += to - from
			runs[i] = append(runs[i], end)
		}
	}
	for i, p := range a.parts {
		if err := mergeAll(p, got[i], runs[i]); err != nil {
			return ofPart("sort", i, err)
		}
	}
	return nil
}

// cuts finds how many keys of part j belong before part i: cuts[i][j].
func (a *sortingAll[K]) cuts(ctx context.Context) ([][]int, error) {
	n := a.ends[len(a.ends)-1]
	cuts := make([][]int, len(a.parts)+1)
	for i := range cuts {
		cuts[i] = make([]int, len(a.parts))
	}
	for j, p := range a.parts {
		cuts[len(a.parts)][j] = p.Data.Len()
	}
	var of []int // the cuts that have a key behind them, and one before
	for i := 1; i < len(a.parts); i++ {
		switch at := a.ends[i-1]; {
		case at == n:
			copy(cuts[i], cuts[len(a.parts)])
		case at > 0:
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return cuts, nil
	}
	// The key behind a cut is found digit by digit: the largest one that no more keys are less than.
	prefixes, counts := make([]uint64, len(of)), make([][]uint64, len(a.parts))
	onDevice := make([]*runtime.Ref[uint64], len(a.parts))
	for j, p := range a.parts {
		var err error
		if onDevice[j], err = runtime.Alloc[uint64](p.Stream, len(of)*(1+tiles.CutCandidates)); err != nil {
			return nil, ofPart("sort", j, err)
		}
		defer func() { _ = onDevice[j].Close() }()
		counts[j] = make([]uint64, len(of)*tiles.CutCandidates)
	}
	digits := make([]int, len(of))
	for shift := 8*int(sizeOf[K]()) - 8; shift >= 0; shift -= 8 {
		for j, p := range a.parts {
			what, out := onDevice[j].Slice(0, len(of)), onDevice[j].Slice(len(of), onDevice[j].Len())
			if err := runtime.Upload(ctx, p.Stream, what, prefixes); err != nil {
				return nil, ofPart("sort", j, err)
			}
			o, on := slice(out, true)
			w, wn := slice(what, false)
			x, xn := slice(p.Data, false)
			if err := p.Kernels.launch(3, p.Stream, len(of), tiles.MergeThreads, 0,
				runtime.Value(uint32(orderOf[K]())), runtime.Value(uint32(shift)), o, on, w, wn, x, xn); err != nil {
				return nil, ofPart("sort", j, err)
			}
		}
		for j, p := range a.parts {
			if err := runtime.Download(ctx, p.Stream, counts[j], onDevice[j].Slice(len(of), onDevice[j].Len())); err != nil {
				return nil, ofPart("sort", j, err)
			}
		}
		for b, i := range of {
			digits[b] = 0
			for d := 1; d < tiles.CutCandidates-1; d++ {
				less := 0
				for j := range a.parts {
					less += int(counts[j][b*tiles.CutCandidates+d])
				}
				if less <= a.ends[i-1] {
					digits[b] = d
				}
			}
			prefixes[b] += uint64(digits[b]) << shift
		}
	}
	for b, i := range of {
		left := a.ends[i-1]
		for j := range a.parts {
			cuts[i][j] = int(counts[j][b*tiles.CutCandidates+digits[b]])
			left -= cuts[i][j]
		}
		for j := range a.parts { // of equal keys the first parts give first
			equal := min(left, int(counts[j][b*tiles.CutCandidates+digits[b]+1])-cuts[i][j])
			cuts[i][j] += equal
			left -= equal
		}
	}
	return cuts, nil
}

// mergeAll merges the runs in got into a part.
func mergeAll[K Key](p Part[SortAcross[K], K], got *runtime.Ref[K], ends []int) error {
	if len(ends) == 0 {
		return nil
	}
	tile := tiles.MergeTile(sizeOf[K]())
	splits, err := runtime.Alloc[uint64](p.Stream, ceil(got.Len(), tile)+1)
	if err != nil {
		return err
	}
	defer func() { _ = splits.Close() }()
	from, to := got, p.Data
	for ; len(ends) > 1; from, to = to, from {
		var next []int
		begin := 0
		for i := 0; i < len(ends); i += 2 {
			end := ends[min(i+1, len(ends)-1)]
			next = append(next, end)
			if i+1 == len(ends) {
				err = runtime.Copy(p.Stream, to.Slice(begin, end), from.Slice(begin, end))
			} else {
				err = mergeTwo(p, splits.Slice(0, ceil(end-begin, tile)), to.Slice(begin, end), from.Slice(begin, ends[i]), from.Slice(ends[i], end))
			}
			if err != nil {
				return err
			}
			begin = end
		}
		ends = next
	}
	if from != p.Data {
		return runtime.Copy(p.Stream, p.Data, from)
	}
	return nil
}

func mergeTwo[K Key](p Part[SortAcross[K], K], splits *runtime.Ref[uint64], out, first, second *runtime.Ref[K]) error {
	tile, order := tiles.MergeTile(sizeOf[K]()), runtime.Value(uint32(orderOf[K]()))
	f, fn := slice(first, false)
	s, sn := slice(second, false)
	x, xn := slice(splits, true)
	if err := p.Kernels.launch(4, p.Stream, min(ceil(splits.Len(), tiles.MergeThreads), maxGrid), tiles.MergeThreads, 0, order, x, xn, f, fn, s, sn); err != nil {
		return err
	}
	o, on := slice(out, true)
	return p.Kernels.launch(5, p.Stream, splits.Len(), tiles.MergeThreads, tile*int(sizeOf[K]()), order, o, on, f, fn, s, sn, x, xn)
}
