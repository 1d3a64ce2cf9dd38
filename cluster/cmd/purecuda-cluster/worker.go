package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// ofHash tells a worker that it ends when its standard input does: with the program that has started it.
const ofHash = "PURECUDA_CLUSTER_OF_HASH"

type worker struct {
	connection
	roots      roots
	urls       []string
	cache      string
	cacheBytes int64
	name       string
	slots      int
	memory     int64
	simulate   int
	share      string
	inProcess  bool
	drain      time.Duration
	listen     string
}

func workerCommand(f *flag.FlagSet) func(context.Context, io.Writer) error {
	w := &worker{roots: roots{}}
	w.connection.set(f)
	f.Var(w.roots, "root", "`NAME=DIR`: let references name files below a folder; may be repeated")
	f.Func("url", "let references name what is below a `URL` that ends in /; may be repeated", func(text string) error {
		w.urls = append(w.urls, text)
		return nil
	})
	f.StringVar(&w.cache, "cache", "", "keep data that have a digest in a `folder`")
	f.Int64Var(&w.cacheBytes, "cache-bytes", 10<<30, "how many `bytes` the cache may have")
	f.StringVar(&w.name, "name", "", "the `name` of the host in reports and rights, with - for dots (default: that of the machine and the process)")
	f.IntVar(&w.slots, "slots", 0, "how many pieces each device has at the same time (default 2)")
	f.Int64Var(&w.memory, "memory", 4<<30, "how many `bytes` the data of pieces may take")
	f.IntVar(&w.simulate, "simulate", 0, "simulate so many `GPUs`")
	f.StringVar(&w.share, "share", "", "`I/N`: the I-th of N workers on this machine takes every N-th device")
	f.BoolVar(&w.inProcess, "in-process", false, "run functions in this process, and not in children")
	f.DurationVar(&w.drain, "drain", 30*time.Second, "how long pieces may run on after SIGTERM")
	f.StringVar(&w.listen, "listen", "", "serve /healthz, /readyz and /metrics at an `address`")
	return w.run
}

func (w *worker) run(ctx context.Context, out io.Writer) error {
	if w.url == "" {
		return usageError("worker needs --nats")
	}
	if os.Getenv(ofHash) != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if w.simulate > 0 {
		if err := os.Setenv(simulateVariable, strconv.Itoa(w.simulate)); err != nil {
			return err
		}
	}
	nc, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	var state atomic.Pointer[seen]
	options := append(w.roots.options(), cluster.WithName(w.connection.name), cluster.WithSlots(w.slots), cluster.WithMemory(w.memory), cluster.WithDrain(w.drain),
		cluster.WithObserver(func(h cluster.Host) { state.Store(&seen{h, time.Now()}) }),
		cluster.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if w.name != "" {
		options = append(options, cluster.WithHostName(hostName(w.name)))
	}
	for _, u := range w.urls {
		options = append(options, cluster.WithURL(u))
	}
	if w.cache != "" {
		options = append(options, cluster.WithCache(w.cache, w.cacheBytes))
	}
	if w.listen != "" {
		l, err := net.Listen("tcp", w.listen)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: probes(nc, &state), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = s.Serve(l) }() // it ends with Close
		defer s.Close()
		fmt.Fprintln(out, "probes and metrics at http://"+l.Addr().String())
	}
	return w.serve(ctx, nc, out, options)
}

// serve serves with children where there are devices and isolation, and else in this process.
func (w *worker) serve(ctx context.Context, nc *nats.Conn, out io.Writer, options []cluster.Option) (err error) {
	rt, err := openRuntime()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	var ordinals []int
	if w.share != "" {
		var i, n int
		if _, err := fmt.Sscanf(w.share, "%d/%d", &i, &n); err != nil || n < 1 || i < 0 || i >= n {
			return usageError("--share " + w.share + ": want I/N with 0 <= I < N")
		}
		for at, d := range rt.Devices() {
			if at%n == i%max(min(n, len(rt.Devices())), 1) {
				ordinals = append(ordinals, d.Ordinal)
			}
		}
	}
	if !w.inProcess && rt.Err() == nil {
		g, err := isolate.Open(rt, isolate.WithDevices(ordinals...), isolate.WithEnvironment(simulateVariable+"="+os.Getenv(simulateVariable)))
		if err == nil {
			fmt.Fprintf(out, "serving with %d devices, in child processes\n", len(g.Stats().Devices))
			err = cluster.Serve(ctx, nc, g, nil, options...)
			return errors.Join(err, g.Close())
		}
		if !errors.Is(err, driver.ErrUnsupported) {
			return err
		}
	}
	p, err := pool.Open(rt, pool.Options{Devices: ordinals, Setup: []pool.Setup{sha256Chunks}})
	if err != nil {
		return err
	}
	if rt.Err() != nil {
		fmt.Fprintln(out, "serving with the cores:", rt.Err())
	} else {
		fmt.Fprintf(out, "serving with %d devices in this process\n", len(p.Devices()))
	}
	options = append(options, cluster.WithCPU(hashFunction, hashOnCPU),
		cluster.WithCPU(echoFunction, func(_ context.Context, r *isolate.Request) ([]byte, error) { return r.Data, nil }))
	err = cluster.Serve(ctx, nc, p, nil, options...)
	return errors.Join(err, p.Close())
}

// hostName is a name of a machine as cluster.WithHostName takes it.
func hostName(name string) string { return strings.ReplaceAll(name, ".", "-") }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// seen is what Serve has told last, and when.
type seen struct {
	cluster.Host
	at time.Time
}

// staleAfter is when a worker counts as dead whose Serve tells nothing. It tells each second.
const staleAfter = 10 * time.Second

func (s *seen) alive() bool { return s != nil && time.Since(s.at) < staleAfter }

// probes are for Kubernetes and Prometheus. A worker is alive while Serve tells how it is, and ready while it is connected, has slots
// and takes pieces.
func probes(nc *nats.Conn, state *atomic.Pointer[seen]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		h := state.Load()
		if !h.alive() {
			http.Error(w, "starting, or it has told nothing for 10 s", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(h.Host)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := state.Load()
		if !h.alive() || h.Draining || h.Slots == 0 || !nc.IsConnected() {
			http.Error(w, "takes no pieces", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		h := state.Load()
		if h == nil {
			return
		}
		failed := 0
		for _, d := range h.Devices {
			failed += btoi(d.Err != "")
		}
		for _, m := range []struct {
			name, kind, help string
			value            uint64
		}{
			{"slots", "gauge", "Pieces that can run at the same time.", uint64(h.Slots)},
			{"busy", "gauge", "Pieces that run.", uint64(h.Busy)},
			{"waiting", "gauge", "Pieces that were fetched and wait.", uint64(h.Waiting)},
			{"connected", "gauge", "1 while there is a connection to a server.", uint64(btoi(nc.IsConnected()))},
			{"draining", "gauge", "1 while no pieces are taken.", uint64(btoi(h.Draining))},
			{"devices", "gauge", "Devices of this worker.", uint64(len(h.Devices))},
			{"devices_failed", "gauge", "Devices that serve nothing.", uint64(failed)},
			{"pieces_done_total", "counter", "Pieces with a result.", h.Done},
			{"pieces_failed_total", "counter", "Pieces with an error.", h.Failed},
		} {
			fmt.Fprintf(w, "# HELP purecuda_cluster_%s %s\n# TYPE purecuda_cluster_%s %s\npurecuda_cluster_%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
		}
		for i, m := range []struct{ name, kind, help string }{
			{"function_pieces_done_total", "counter", "Pieces with a result, by function."},
			{"function_pieces_failed_total", "counter", "Pieces with an error, by function."},
			{"function_seconds_total", "counter", "How long pieces ran, by function."},
		} {
			fmt.Fprintf(w, "# HELP purecuda_cluster_%s %s\n# TYPE purecuda_cluster_%s %s\n", m.name, m.help, m.name, m.kind)
			for _, f := range slices.Sorted(maps.Keys(h.Pieces)) {
				p := h.Pieces[f]
				fmt.Fprintf(w, "purecuda_cluster_%s{function=%q} %g\n", m.name, f, [...]float64{float64(p.Done), float64(p.Failed), p.Ran.Seconds()}[i])
			}
		}
	})
	return mux
}
