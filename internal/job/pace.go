package job

import "sync"

// pace decides how large the next batch of a place is, so that batches take about as long
// at all places. Digests are consumed in the order of the input: while the oldest batch is
// under way the others can go on only until all slots are taken, and a place that is twenty
// times slower would hold them up with every batch of full size.
//
// Speed is what a place got done lately, in comparison with the one that got most done, so
// that no clock is needed.
type pace struct {
	mu    sync.Mutex
	done  []int64 // bytes of late, of each place
	most  int64   // the largest of done
	full  int64   // bytes of a full batch
	least int     // bytes that no batch is made smaller than
}

const (
	// paceSpan is after how many full batches of the fastest place old work counts half.
	paceSpan = 64
	// paceStart is the share of a full batch that places begin with.
	paceStart = 1.0 / 16
	// paceLeast is the smallest share. Smaller batches cost more than they hash.
	paceLeast = 1.0 / 64
	// paceChunks is how many chunks a batch has room for at least: as many as a GPU hashes
	// in the time of one.
	paceChunks = 32
	// paceSlack keeps full batches where speeds differ by less: those that are alike.
	paceSlack = 2
)

func newPace(places int, full Shape, largest int) *pace {
	return &pace{done: make([]int64, places), full: int64(full.Bytes), least: min(paceChunks*largest, full.Bytes)}
}

// finished counts a batch.
func (p *pace) finished(place int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[place] += bytes
	p.most = max(p.most, p.done[place])
	if p.most < paceSpan*p.full {
		return
	}
	for i := range p.done {
		p.done[i] /= 2
	}
	p.most /= 2
}

// limit is what the next batch of a place may hold, of the most that its workers take.
func (p *pace) limit(place int, most Shape) Shape {
	share := p.share(place)
	if share >= 1 {
		return most
	}
	return Shape{
		Bytes:  min(max(align(int(share*float64(most.Bytes))), p.least), most.Bytes),
		Chunks: min(max(int(share*float64(most.Chunks)), paceChunks), most.Chunks),
	}
}

func (p *pace) share(place int) float64 {
	if len(p.done) == 1 {
		return 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most < p.full {
		return paceStart
	}
	return max(paceSlack*float64(p.done[place])/float64(p.most), paceLeast)
}
