package nccl

import (
	"cmp"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// span is memory that a call of a rank uses.
type span struct {
	at, end driver.DevicePtr
	writes  bool
	kind    Kind
}

// spans is the memory of a call. Of what a rank sends and receives in the same place it has one.
func (k *Call) spans(rank, size int, element uint64) (all []span) {
	send, recv := k.Count*element, k.Count*element
	offset := func(n uint64) driver.DevicePtr { return driver.DevicePtr(uint64(rank) * n) }
	inPlace := k.Send == k.Recv
	switch k.Kind {
	case KindAllGather:
		recv *= uint64(size)
		inPlace = k.Send == k.Recv+offset(send)
	case KindReduceScatter:
		send *= uint64(size)
		inPlace = k.Recv == k.Send+offset(recv)
	case KindBroadcast:
		return []span{{k.Send, k.Send + driver.DevicePtr(send), rank != int(k.Peer), k.Kind}}
	}
	whole := k.Kind == KindReduceScatter && inPlace
	if k.Send != 0 && (!inPlace || whole) {
		all = append(all, span{k.Send, k.Send + driver.DevicePtr(send), whole, k.Kind})
	}
	if k.Recv != 0 && !whole {
		all = append(all, span{k.Recv, k.Recv + driver.DevicePtr(recv), true, k.Kind})
	}
	return all
}

// overlap finds memory that one of the calls of a rank writes while another one uses it.
func overlap(rank int, all []span) error {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	var any, written span // those that end last
	for _, s := range all {
		if with := any; s.writes && s.at < with.end {
			return errOverlap(rank, s, with)
		}
		if s.at < written.end {
			return errOverlap(rank, s, written)
		}
		if s.end > any.end {
			any = s
		}
		if s.writes && s.end > written.end {
			written = s
		}
	}
	return nil
}

func errOverlap(rank int, a, b span) error {
	return wrong("rank %d: %v and %v use %#x to %#x at the same time, and one writes there: operations of one Do have memory of their own, "+
		"and receive in the place where they send or elsewhere", rank, b.kind, a.kind, uint64(a.at), uint64(min(a.end, b.end)))
}
