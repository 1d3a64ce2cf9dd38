package pool

import (
	"math"
	goruntime "runtime"
)

const (
	// readersOfADevice keep one device busy: a core reads 5 to 8 GB/s, the bus takes 50. More gain nothing; see docs/benchmarks.md.
	readersOfADevice = 12
	// readersOfAll is how many of them all devices together keep busy: with more, four H200 get less than with these (70 and 88 GB/s).
	readersOfAll = 16
	// sharedPieces is how many pieces a device has where there are too few readers for all.
	sharedPieces = 16
)

// Readers returns how many pieces [Stream] reads at the same time for so many devices on this machine, and how many pieces each device
// has. A reader serves two pieces: it reads one while the device copies and computes the other. Where there are many devices fewer
// readers serve more, so that each device still has much at a time.
func Readers(devices int) (readers, perDevice int) {
	devices = max(devices, 1)
	return readersFor(devices, goruntime.GOMAXPROCS(0))
}

func readersFor(devices, cores int) (readers, perDevice int) {
	readers = min(readersOfADevice, max(1, cores/devices))
	most := max(1, readersOfAll/devices)
	if readers <= most {
		return readers * devices, 2 * readers
	}
	return most * devices, sharedPieces / most * most
}

// places are the devices of a stream, in their order, and the CPU. Digests are consumed in the order of the input: while the oldest
// piece is under way the others go on only until there is no more room. So a device that is slower than others has fewer pieces
// at a time. Its speed is how many it got done lately, in comparison with the one that got most done, so that no clock is needed.
// The mu of the stream guards all but the channels.
type places struct {
	all  []place
	most float64 // the largest done
}

type place struct {
	permits chan struct{} // closed where there is no limit
	limit   int           // of permits, those of lanes included; 0 for none
	given   int           // permits that are out
	done    float64       // pieces of late
	ever    int           // pieces
}

const (
	// paceSpan is after how many pieces of each lane of the fastest place old ones count half.
	paceSpan = 64
	// paceSlack keeps all lanes where speeds differ by less: devices that are alike.
	paceSlack = 2
	// paceStart is the share of lanes that places begin with. Each piece that is done adds one.
	paceStart = 4
)

// add adds a place with so many lanes. Only in a company of devices it is paced.
func (p *places) add(lanes int, paced bool) {
	at := place{permits: make(chan struct{}, lanes)}
	if paced {
		at.limit = lanes
		at.give(max(lanes/paceStart, 1))
	} else {
		close(at.permits)
	}
	p.all = append(p.all, at)
}

func (p *places) permits(i int) <-chan struct{} { return p.all[i].permits }

// give gives permits until so many are out.
func (p *place) give(n int) {
	for ; p.given < n; p.given++ {
		p.permits <- struct{}{} // there are as many places for them as there are lanes
	}
}

// done counts a piece of a lane at a place, and takes its permit back.
func (p *places) done(i int) {
	at := &p.all[i]
	if at.limit == 0 {
		return
	}
	at.ever++
	at.done++
	if p.most = max(p.most, at.done); p.most > paceSpan*float64(at.limit) {
		for j := range p.all {
			p.all[j].done /= 2
		}
		p.most /= 2
	}
	share := int(math.Ceil(paceSlack * at.done / p.most * float64(at.limit)))
	at.given--
	at.give(min(max(share, 1), max(at.limit/paceStart, 1)+at.ever, at.limit))
}
