// Sort sorts bids by their price: on a GPU if there is one, and on the CPU if not. The library's kernel is compiled for the
// type and the order of this package.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

//go:generate go run -C ../../gpuc . ../examples/sort

//purecuda:instantiate kernels.StableSort[Bid, Cheaper]

// Bid is what somebody offers.
type Bid struct {
	Price  float32
	Amount uint32
	Number uint64
}

// Cheaper is the order of bids. Bids with equal prices keep their order.
type Cheaper struct{}

// Less compares prices.
func (Cheaper) Less(a, b Bid) bool { return a.Price < b.Price }

// sorter is loaded once for each device.
var sorter = pool.PerDevice(LoadStableSortBidCheaper)

func main() {
	rt, err := runtime.Open() // no GPU is no error; a broken one is
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	bids := []Bid{{3, 10, 0}, {1, 20, 1}, {2, 30, 2}, {1, 40, 3}}
	sorted, report, err := sortBids(context.Background(), rt, bids)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Where, sorted) // [{1 20 1} {1 40 3} {2 30 2} {3 10 0}]
	if report.Err != nil {
		fmt.Println("not on a GPU:", report.Err)
	}
}

// sortBids leaves bids as they are, so that the CPU can do it after a failure. A service opens its pool once.
func sortBids(ctx context.Context, rt *runtime.Runtime, bids []Bid) (sorted []Bid, report pool.Report, err error) {
	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{sorter}})
	if err != nil {
		return nil, report, err
	}
	defer p.Close()
	sorted = make([]Bid, len(bids))
	report, err = p.Do(ctx, func(w *pool.Worker) error {
		s := w.Stream()
		x, err := runtime.UploadNew(w.CallContext(), s, bids)
		if err != nil {
			return err
		}
		defer x.Close()
		if err := sorter.Of(w).Launch(s, Cheaper{}, x, x, nil); err != nil {
			return err
		}
		return runtime.Download(w.CallContext(), s, sorted, x)
	}, pool.DoOptions{Fallback: func(context.Context) error {
		copy(sorted, bids)
		slices.SortStableFunc(sorted, func(a, b Bid) int { return cmp.Compare(a.Price, b.Price) })
		return nil
	}})
	return sorted, report, err
}
