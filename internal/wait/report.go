package wait

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
)

// ReportWords is how many words the device writes to a [Report], and reportBytes its memory: whole cache lines.
const (
	ReportWords = 9
	reportBytes = 128
	pageReports = pageBytes / reportBytes
)

// claimed is the first word of a report while a thread writes the others. The thread takes a report whose first word is
// 0, and in the end makes that what it has to say.
const claimed = ^uint64(0)

// Report is page-locked memory that kernels write a few words to. It is safe for concurrent use.
type Report struct {
	At    driver.DevicePtr // for kernels
	dev   *Device
	words *[ReportWords]uint64
}

// reports of a device that nobody uses.
type reports struct {
	readers gate.Gate // closed when the memory is freed
	pages   []page    // mu of the device guards them
	free    []*Report
}

// NewReport returns a report that is empty. It may allocate memory.
func (d *Device) NewReport() (*Report, error) {
	if r := d.freeReport(); r != nil {
		return r, nil
	}
	ptr, at, err := d.allocPage()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.reports.pages = append(d.reports.pages, page{ptr})
	for i := range pageReports {
		d.reports.free = append(d.reports.free, &Report{dev: d, At: at + driver.DevicePtr(i*reportBytes),
			words: (*[ReportWords]uint64)(unsafe.Add(ptr, i*reportBytes))})
	}
	d.mu.Unlock()
	if r := d.freeReport(); r != nil {
		return r, nil
	}
	return d.NewReport() // others took all of them
}

func (d *Device) freeReport() *Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.reports.free)
	if n == 0 {
		return nil
	}
	r := d.reports.free[n-1]
	d.reports.free = d.reports.free[:n-1]
	return r
}

// Free ends the use of a report. No kernel can write it any more.
func (r *Report) Free() {
	r.Take()
	r.dev.mu.Lock()
	defer r.dev.mu.Unlock()
	r.dev.reports.free = append(r.dev.reports.free, r)
}

// Written reports whether a kernel has written the report. Once the memory is freed nothing is.
func (r *Report) Written() bool {
	if !r.dev.reports.readers.Enter() {
		return false
	}
	first := atomic.LoadUint64(&r.words[0])
	r.dev.reports.readers.Leave()
	return first != 0 && first != claimed
}

// Take returns what a kernel has written, and empties the report for the next one. One caller at a time takes.
func (r *Report) Take() (words [ReportWords]uint64, ok bool) {
	if !r.dev.reports.readers.Enter() {
		return words, false
	}
	defer r.dev.reports.readers.Leave()
	first := atomic.LoadUint64(&r.words[0])
	if first == 0 || first == claimed {
		return words, false
	}
	words = *r.words
	atomic.StoreUint64(&r.words[0], 0)
	return words, true
}
