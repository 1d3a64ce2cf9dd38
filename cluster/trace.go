package cluster

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/traceparent"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// WithTrace sets the functions that hear of calls, of which Request and Inject are used. A call is a request with the name
// "cluster.Scatter". What Inject returns for its context goes to hosts with each piece, and from them to their children: their requests
// continue the trace where their runtimes have an Extract ([runtime.WithTrace]). It is an option of Open and of calls.
func WithTrace(t *runtime.Trace) Option {
	return option("WithTrace", func(c *config) { c.trace = t }, atOpen, atCall)
}

// traced is perform for a call of which somebody may hear.
func (k *call) traced() (report pool.Report, err error) {
	t := k.config.trace
	if t == nil {
		t = &runtime.Trace{}
	}
	var end func(runtime.TraceRequest)
	if t.Request != nil {
		k.hook(func() {
			var own context.Context
			if own, end = t.Request(k.ctx, "cluster.Scatter"); own != nil {
				k.ctx = own
			}
		})
	}
	if k.parent = traceparent.From(k.ctx); t.Inject != nil {
		k.hook(func() { k.parent = t.Inject(k.ctx) })
	}
	if len(k.parent) > traceparent.Max {
		k.parent = ""
	}
	report, err = k.perform()
	if end != nil {
		k.hook(func() {
			end(runtime.TraceRequest{Device: driver.NoDevice, Where: string(report.Where), Reason: string(report.Reason), Items: k.n, Ran: report.Wall, Err: err})
		})
	}
	return report, err
}

// hook calls a function of the caller's that is no part of the call.
func (k *call) hook(f func()) {
	contain.Call(func() error { f(); return nil }, func(err error) {
		if err != nil {
			k.log.Warn("a function of WithTrace has failed", "error", err)
		}
	})
}
