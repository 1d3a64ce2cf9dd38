package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/purecuda/purecuda/runtime"
)

// uploads is how many requests may have their upload in memory at the same time. Others
// wait, with what they send still in the buffers of the network.
const uploads = 8

// newHandler is the service: POST /hash and GET /healthz.
func newHandler(rt *runtime.Runtime, h *hasher, limit int64) http.Handler {
	mux := http.NewServeMux()
	places := make(chan struct{}, uploads)
	mux.HandleFunc("POST /hash", func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return // nobody is there any more
		}
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			http.Error(w, tooLarge.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil || len(data) == 0 {
			http.Error(w, "the body is empty or ended early", http.StatusBadRequest)
			return
		}
		root, report, err := h.root(r.Context(), data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer := map[string]any{"root": hex.EncodeToString(root[:]), "bytes": len(data), "on": report.Where}
		if report.Why != nil {
			answer["why"] = report.Why.Error() // it did not run on a GPU
		}
		reply(w, http.StatusOK, answer)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		// A machine without a GPU is healthy, and so is one that has lost some of its GPUs: the
		// others go on, and the body says which are gone. One that has lost all still
		// answers, from the CPU, and 503 asks for a new process.
		status, answer := http.StatusOK, map[string]any{"cuda": rt.Outcome()}
		if err := rt.Err(); err != nil {
			answer["reason"] = err.Error()
		}
		if err := rt.Degraded(); err != nil {
			answer["degraded"] = err.Error()
		}
		if rt.Outcome() == runtime.Fault {
			status = http.StatusServiceUnavailable
		}
		reply(w, status, answer)
	})
	return mux
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}
