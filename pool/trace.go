package pool

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// doTraced is request for one of which somebody hears, also if its function ends the goroutine.
func (p *Pool) doTraced(ctx context.Context, o *DoOptions, f func(*Worker) error, report *Report, end func(runtime.TraceRequest)) (err error) {
	contain.Call(func() error {
		return p.request(ctx, o, f, report)
	}, func(failed error) {
		err = failed
		end(runtime.TraceRequest{Device: report.Device, Where: string(report.Where), Reason: string(report.Reason),
			Items: max(o.Items, 1), Tries: report.Tries, Waited: report.Waited, Ran: report.Wall, Err: err})
	})
	return err
}

// runTraced is run for a call of which somebody hears.
func (c *scatterCall) runTraced(end func(runtime.TraceRequest)) (report *Report, err error) {
	contain.Call(func() error {
		report, err = c.run()
		return err
	}, func(failed error) {
		err = failed
		r := runtime.TraceRequest{Device: driver.NoDevice, Items: c.n, Err: err}
		if report != nil {
			r.Where, r.Reason, r.Ran = string(report.Where), string(report.Reason), report.Wall
		}
		end(r)
	})
	return report, err
}

// doTraced is wait for a call of which somebody hears.
func (b *Batcher[In, Out]) doTraced(ctx context.Context, c *batchCall[In, Out], end func(runtime.TraceRequest)) {
	defer func() { // a panic of BatcherConfig.Bytes is the caller's
		r := runtime.TraceRequest{Device: driver.NoDevice, Items: len(c.in)}
		for _, err := range c.errs {
			if r.Err = err; err != nil {
				break
			}
		}
		end(r)
	}()
	b.wait(ctx, c)
}
