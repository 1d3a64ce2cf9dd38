package kernels

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu/block"
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
func SortAll[K Key](ctx context.Context, parts ...Part[Sort[K], K]) error {
	return sortKeysAll(ctx, make([]*runtime.Ref[struct{}], len(parts)), parts)
}

// SortPairsAll is [SortAll] for keys that have values: values[i] has those of part i, on the same device. Pairs with equal keys keep the order that
// they had among all parts, as with [SortPairs]. Without a device [slices.SortStableFunc] does the same.
func SortPairsAll[K Key, V any](ctx context.Context, values []*runtime.Ref[V], parts ...Part[SortPairs[K, V], K]) error {
	switch {
	case sizeOf[V]() == 0:
		return invalidArgument("sort: the values have no bytes: take kernels.SortAll")
	case len(values) != len(parts):
		return invalidArgument("sort: values of %d parts, and keys of %d: give each part both", len(values), len(parts))
	}
	return sortKeysAll(ctx, values, parts)
}

func sortKeysAll[P instance, K Key, V any](ctx context.Context, values []*runtime.Ref[V], parts []Part[P, K]) error {
	for i, p := range parts {
		if n := p.Data.Len(); uint64(n) > math.MaxUint32 {
			return invalidArgument("sort: part %d has %d keys, at most %d: give it to more devices", i, n, uint32(math.MaxUint32))
		}
	}
	a := &sortingAll[K, V, tiles.KeyOrder[K]]{name: "sort", less: tiles.NewKeyOrder[K](orderOf[K]()), kernel: 3, values: values}
	return sortAll(ctx, a, parts, func(i int, p Part[primitive, K]) error {
		return sortInto(p.Stream, p.Kernels, p.Data, p.Data, values[i], values[i], nil)
	})
}

// StableSortAll is [SortAll] for elements of any type, by a comparison. Equal elements keep the order that they had among all parts, as with
// [StableSort]. The program compares some elements too. Where Less is no order, all elements come out in some order, or there is an error
// that says so. Without a device [slices.SortStableFunc] does the same.
func StableSortAll[T any, L block.Less[T]](ctx context.Context, less L, parts ...Part[StableSort[T, L], T]) error {
	a := &sortingAll[T, struct{}, L]{name: "stable sort", less: less, kernel: 1, more: []runtime.Arg{runtime.Value(uint32(tiles.OnePair))}, values: make([]*runtime.Ref[struct{}], len(parts))}
	return sortAll(ctx, a, parts, func(_ int, p Part[primitive, T]) error {
		return mergeSort(p.Stream, a.name, p.Kernels, less, p.Data, p.Data, nil, false, p.Data.Len(), nil)
	})
}

func sortAll[P instance, T, V any, L block.Less[T]](ctx context.Context, a *sortingAll[T, V, L], parts []Part[P, T], sort func(int, Part[primitive, T]) error) error {
	if err := checkParts(a.name, ctx, parts, a.values); err != nil {
		return err
	}
	for _, p := range parts {
		a.parts = append(a.parts, Part[primitive, T]{p.Kernels.its(), p.Stream, p.Data})
	}
	for i, p := range a.parts {
		if err := sort(i, p); err != nil {
			return ofPart(a.name, i, err)
		}
	}
	if len(parts) > 1 {
		if err := a.exchange(ctx); err != nil {
			return err
		}
	}
	return synchronizeAll(a.name, ctx, parts)
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

// instance is what has the kernels of a part.
type instance interface{ its() primitive }

// checkParts says what is wrong with the parts of a call. values has those of each part, or is nil; then V is struct{}.
func checkParts[P instance, T, V any](name string, ctx context.Context, parts []Part[P, T], values []*runtime.Ref[V]) error {
	if ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "%s: the ctx is nil", name)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var spans []launch.Span
	for i, p := range parts {
		if err := p.Kernels.its().loaded(name); err != nil {
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
		if sizeOf[V]() == 0 {
			continue
		}
		if n, m := p.Data.Len(), values[i].Len(); n != m {
			return invalidArgument("%s: part %d has %d keys and %d values", name, i, n, m)
		}
		if err := usable(values[i]); err != nil {
			return ofPart(name, i, err)
		}
		spans = append(spans, launch.Device(fmt.Sprintf("values of part %d", i), values[i], true))
	}
	return launch.Apart(name, spans...)
}

// sortingAll is a sort over several devices. V is struct{} where there are no values.
type sortingAll[T, V any, L block.Less[T]] struct {
	name   string
	less   L
	kernel int           // the number of the one that merges; the next ones split and sample
	more   []runtime.Arg // of those that merge and split
	parts  []Part[primitive, T]
	values []*runtime.Ref[V]
}

// exchange gives each part what belongs there. Each is sorted by itself.
func (a *sortingAll[T, V, L]) exchange(ctx context.Context) error {
	cuts, err := a.cuts(ctx)
	if err != nil {
		return err
	}
	got, gotValues := make([]*runtime.Ref[T], len(a.parts)), make([]*runtime.Ref[V], len(a.parts))
	runs := make([][]int, len(a.parts)) // the ends of what each part got
	for i, p := range a.parts {
		if p.Data.Len() == 0 {
			continue
		}
		if got[i], err = runtime.Alloc[T](p.Stream, p.Data.Len()); err != nil {
			return ofPart(a.name, i, err)
		}
		defer func() { _ = got[i].Close() }() // what goes wrong with that changes no result
		if sizeOf[V]() > 0 {
			if gotValues[i], err = runtime.Alloc[V](p.Stream, p.Data.Len()); err != nil {
				return ofPart(a.name, i, err)
			}
			defer func() { _ = gotValues[i].Close() }()
		}
		end := 0
		for j, q := range a.parts {
			from, to := cuts[i][j], cuts[i+1][j]
			if from == to {
				continue
			}
			begin := end
			end += to - from
			if err := copyPairs(p.Stream, got[i].Slice(begin, end), q.Data.Slice(from, to), gotValues[i].Slice(begin, end), a.values[j].Slice(from, to)); err != nil {
				return ofPart(a.name, i, err)
			}
			runs[i] = append(runs[i], end)
		}
	}
	for i := range a.parts {
		if err := a.mergeAll(i, got[i], gotValues[i], runs[i]); err != nil {
			return ofPart(a.name, i, err)
		}
	}
	return nil
}

// copyPairs copies elements, and their values if there are some.
func copyPairs[T, V any](s *runtime.Stream, to, from *runtime.Ref[T], toValues, fromValues *runtime.Ref[V]) error {
	if err := runtime.Copy(s, to, from); err != nil || sizeOf[V]() == 0 {
		return err
	}
	return runtime.Copy(s, toValues, fromValues)
}

// cutAt is a place among all elements in order. lo and hi are how many elements of each part come before it, at least and at most.
type cutAt[T any] struct {
	at      int
	lo, hi  []int
	step    []int // from one sample of a part to the next; the first one is at lo
	samples [][]T
}

// cuts finds how many elements of part j belong before part i: cuts[i][j].
func (a *sortingAll[T, V, L]) cuts(ctx context.Context) ([][]int, error) {
	parts, n, at := len(a.parts), 0, 0
	for _, p := range a.parts {
		n += p.Data.Len()
	}
	cuts, all := make([]cutAt[T], parts-1), make([][]int, parts+1)
	all[0], all[parts] = make([]int, parts), make([]int, parts)
	for i := range cuts {
		at += a.parts[i].Data.Len()
		c := cutAt[T]{at, make([]int, parts), make([]int, parts), make([]int, parts), make([][]T, parts)}
		for j, p := range a.parts {
			c.lo[j], c.hi[j] = max(0, p.Data.Len()-(n-at)), min(p.Data.Len(), at)
			all[parts][j] = p.Data.Len()
		}
		cuts[i], all[i+1] = c, c.lo
	}
	most := mostSamples(parts)
	onDevice, onHost := make([]*runtime.Ref[T], parts), make([][]T, parts)
	for j, p := range a.parts {
		var err error
		if onDevice[j], err = runtime.Alloc[T](p.Stream, len(cuts)*most); err != nil {
			return nil, ofPart(a.name, j, err)
		}
		defer func() { _ = onDevice[j].Close() }()
		onHost[j] = make([]T, len(cuts)*most)
	}
	for {
		taken := make([]int, parts)
		for j, p := range a.parts {
			for i := range cuts {
				count, err := a.sample(p, j, most, &cuts[i], onDevice[j].Slice(taken[j], onDevice[j].Len()))
				if err != nil {
					return nil, ofPart(a.name, j, err)
				}
				cuts[i].samples[j] = onHost[j][taken[j] : taken[j]+count]
				taken[j] += count
			}
		}
		if slices.Max(taken) == 0 {
			break
		}
		for j, p := range a.parts {
			if err := runtime.Download(ctx, p.Stream, onHost[j][:taken[j]], onDevice[j].Slice(0, taken[j])); err != nil {
				return nil, ofPart(a.name, j, err)
			}
		}
		for i := range cuts {
			narrow(a.less, &cuts[i])
		}
	}
	for i, cut := range all[1:] {
		for j := range cut {
			if cut[j] < all[i][j] {
				return nil, invalidArgument("%s: Less is no order of these elements: it has to say which of two comes first, also for a NaN", a.name)
			}
		}
	}
	return all, nil
}

// mostSamples is how many samples of a part are taken at once. Of so many some tell on which side of the cut they are: in the longest
// part at most one for each part, and one more, do not.
func mostSamples(parts int) int { return 128 + 2*parts }

// sample takes up to so many samples between the bounds of a cut, and returns how many.
func (a *sortingAll[T, V, L]) sample(p Part[primitive, T], j, most int, c *cutAt[T], out *runtime.Ref[T]) (int, error) {
	n := c.hi[j] - c.lo[j]
	if n == 0 {
		return 0, nil
	}
	c.step[j] = ceil(n, most)
	count := ceil(n, c.step[j])
	o, on := slice(out.Slice(0, count), true)
	x, xn := slice(p.Data.Slice(c.lo[j], c.hi[j]), false)
	return count, p.Kernels.launch(a.kernel+2, p.Stream, 1, tiles.MergeThreads, 0, runtime.Value(c.step[j]), o, on, x, xn)
}

// narrow moves the bounds of a cut by its samples, which it goes through in order. What lies between two samples of a part may come before or
// behind a sample of another.
func narrow[T any, L block.Less[T]](less L, c *cutAt[T]) {
	least, most := slices.Clone(c.lo), slices.Clone(c.lo) // of each part before the sample
	sumLeast := 0
	for _, n := range least {
		sumLeast += n
	}
	sumMost := sumLeast
	for {
		first := -1
		for j, s := range c.samples {
			if len(s) > 0 && (first < 0 || less.Less(s[0], c.samples[first][0])) {
				first = j
			}
		}
		if first < 0 {
			return
		}
		place := most[first]
		if sumMost < c.at {
			c.lo[first] = place + 1
		} else if sumLeast-least[first]+place >= c.at {
			copy(c.hi, most)
			return
		}
		next := min(place+c.step[first], c.hi[first])
		sumLeast, least[first] = sumLeast+place+1-least[first], place+1
		sumMost, most[first] = sumMost+next-place, next
		c.samples[first] = c.samples[first][1:]
	}
}

// mergeAll merges the runs in got into a part.
func (a *sortingAll[T, V, L]) mergeAll(i int, got *runtime.Ref[T], gotValues *runtime.Ref[V], ends []int) error {
	if len(ends) == 0 {
		return nil
	}
	s := a.parts[i].Stream
	tile := tiles.MergeTile(tiles.SharedSize[T, V]())
	splits, err := runtime.Alloc[uint64](s, ceil(got.Len(), tile))
	if err != nil {
		return err
	}
	defer func() { _ = splits.Close() }()
	if err := runtime.Zero(s, splits.Slice(0, 1)); err != nil {
		return err
	}
	from, fromValues, to, toValues := got, gotValues, a.parts[i].Data, a.values[i]
	for ; len(ends) > 1; from, fromValues, to, toValues = to, toValues, from, fromValues {
		var next []int
		begin := 0
		for k := 0; k < len(ends); k += 2 {
			end := ends[min(k+1, len(ends)-1)]
			next = append(next, end)
			o, x, ov, v := to.Slice(begin, end), from.Slice(begin, end), toValues.Slice(begin, end), fromValues.Slice(begin, end)
			if k+1 == len(ends) {
				err = copyPairs(s, o, x, ov, v)
			} else {
				err = mergeRuns(a.parts[i].Kernels, a.kernel, s, a.less, o, x, ov, v, ends[k]-begin, splits, a.more)
			}
			if err != nil {
				return err
			}
			begin = end
		}
		ends = next
	}
	if from == got {
		return copyPairs(s, a.parts[i].Data, from, a.values[i], fromValues)
	}
	return nil
}
