package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// How many requests may have their upload in memory at the same time. Others wait for a place, with what they send
// still in the buffers of the network, and get 503 after a while.
const (
	smallUploads = 2048
	largeUploads = 16
	placeTimeout = 2 * time.Second
	// hashTimeout ends a request that has its upload and no answer.
	hashTimeout = 30 * time.Second
)

// service is what the handlers share.
type service struct {
	rt           *runtime.Runtime
	hasher       *hasher
	limit        int64 // bytes of an upload
	small, large chan struct{}
	ending       atomic.Bool
	metrics      *metrics.Reader
}

func newService(rt *runtime.Runtime, h *hasher, limit int64) *service {
	return &service{rt: rt, hasher: h, limit: limit, small: make(chan struct{}, smallUploads), large: make(chan struct{}, largeUploads),
		metrics: metrics.NewReader(rt)}
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hash", s.hash)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /metrics", s.figures)
	return mux
}

// hash answers with the root of the body.
func (s *service) hash(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > s.limit {
		http.Error(w, fmt.Sprintf("an upload of %d bytes: at most %d", r.ContentLength, s.limit), http.StatusRequestEntityTooLarge)
		return
	}
	places := s.large
	if r.ContentLength >= 0 && r.ContentLength <= small {
		places = s.small
	}
	if err := place(r.Context(), places); err != nil {
		fail(w, err)
		return
	}
	defer func() { <-places }()
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.limit))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, tooLarge.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil || len(data) == 0 {
		http.Error(w, "the body is empty or ended early", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), hashTimeout)
	defer cancel()
	hashed, err := s.hasher.hash(ctx, data)
	if err != nil {
		if r.Context().Err() == nil { // else nobody is there any more
			fail(w, err)
		}
		return
	}
	answer := map[string]any{"root": hex.EncodeToString(hashed.root[:]), "bytes": len(data), "on": hashed.on}
	if hashed.why != "" {
		answer["why"] = hashed.why
	}
	reply(w, http.StatusOK, answer)
}

// place waits for a place.
func place(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, placeTimeout, errBusy)
	defer cancel()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// health reports whether the process should live. A machine without a GPU is healthy, and so is one that has lost some of
// its GPUs: the others go on. After a sticky error only a new process gets them back: 503 asks for it,
// though the CPU still answers.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	status, answer := http.StatusOK, map[string]any{"cuda": s.rt.Outcome()}
	if err := s.rt.Err(); err != nil {
		answer["reason"] = err.Error()
	}
	if err := s.rt.Degraded(); err != nil {
		answer["degraded"] = err.Error()
	}
	if s.rt.Outcome() == runtime.Fault {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, answer)
}

// ready reports whether requests should come here, and what each GPU does.
func (s *service) ready(w http.ResponseWriter, _ *http.Request) {
	stats := s.hasher.pool.Stats()
	usable := 0
	devices := []map[string]any{}
	for _, d := range stats.Devices {
		device := map[string]any{"device": d.Device.Ordinal, "name": d.Device.Name, "busy": d.Busy}
		if d.Device.Err != nil {
			device["error"] = d.Device.Err.Error()
		} else if s.rt.Err() == nil {
			usable++
		}
		devices = append(devices, device)
	}
	answer := map[string]any{"queued": stats.Queued, "devices": devices}
	status, why := http.StatusOK, ""
	switch {
	case s.ending.Load():
		why = "the service ends"
	case usable == 0 && !s.hasher.onCPU:
		why = "no GPU can be used"
	case stats.QueueLimit > 0 && stats.Queued >= stats.QueueLimit:
		why = pool.ErrQueueFull.Error()
	}
	if why != "" {
		status, answer["why"] = http.StatusServiceUnavailable, why
	}
	reply(w, status, answer)
}

// figures writes the metrics as Prometheus reads them. The collector in contrib/prometheus also writes their types; the
// example has no other module.
func (s *service) figures(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	labels := map[string][]string{}
	for _, m := range append(metrics.All(), poolmetrics.All()...) {
		labels[m.Name] = m.Labels
	}
	for _, sample := range append(s.metrics.Read(), s.hasher.metrics.Read()...) {
		var pairs []string
		for i, name := range labels[sample.Name] {
			pairs = append(pairs, fmt.Sprintf("%s=%q", name, sample.Labels[i]))
		}
		_, _ = fmt.Fprintf(w, "%s{%s} %v\n", strings.ReplaceAll(sample.Name, ".", "_"), strings.Join(pairs, ","), sample.Value)
	}
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}
