package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// failure is what a client gets for an error.
type failure struct {
	status int
	// retry is what the client, or the load balancer before the service, should do.
	retry retry
}

type retry string

const (
	never     retry = "never"
	later     retry = "later"     // here, when there is less to do
	elsewhere retry = "elsewhere" // this process has no GPU for it now
)

// errBusy is the error of a request that found no place for its upload.
var errBusy = errors.New("too many uploads are under way")

// failures are the classes of errors, the first that fits.
var failures = []struct {
	err error
	failure
}{
	{errBusy, failure{http.StatusServiceUnavailable, later}},
	{pool.ErrQueueFull, failure{http.StatusServiceUnavailable, later}},
	{context.DeadlineExceeded, failure{http.StatusGatewayTimeout, later}},
	{driver.ErrClosed, failure{http.StatusServiceUnavailable, elsewhere}}, // the service ends
	{pool.ErrQuarantined, failure{http.StatusServiceUnavailable, elsewhere}},
	{driver.ErrDeviceLost, failure{http.StatusServiceUnavailable, elsewhere}}, // healthz asks for a new process
	{driver.ErrDriverLibraryUnavailable, failure{http.StatusServiceUnavailable, elsewhere}},
	{driver.ErrRequired, failure{http.StatusServiceUnavailable, elsewhere}},
	{driver.ErrOutOfMemory, failure{http.StatusServiceUnavailable, later}},
	{driver.ErrDriverCallFailed, failure{http.StatusServiceUnavailable, elsewhere}},
}

func failureOf(err error) failure {
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.failure
		}
	}
	return failure{http.StatusInternalServerError, never}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	f := failureOf(err)
	if f.retry == later {
		w.Header().Set("Retry-After", "1")
	}
	if f.retry == elsewhere {
		w.Header().Set("Connection", "close")
	}
	reply(w, f.status, map[string]any{"error": err.Error(), "retry": f.retry})
}
