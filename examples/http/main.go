// Http is a service that hashes uploads, on the GPUs where there are some and on the CPU
// where there are none. The README says how to call it.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// grace is how long requests may go on after a signal.
const grace = 30 * time.Second

func main() {
	addr := flag.String("addr", "localhost:8080", "listen on this `address`")
	limit := flag.Int64("max", 64<<20, "refuse uploads of more `bytes`")
	onCPU := flag.Bool("cpu", true, "let the CPU do what the GPUs cannot, or do slower")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *limit, *onCPU); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string, limit int64, onCPU bool) error {
	rt, err := runtime.Open() // no GPU is no error; a broken one is
	if err != nil {
		return err
	}
	defer logged(rt.Close)
	h, err := newHasher(rt, onCPU, 0)
	if err != nil {
		return err
	}
	defer logged(h.close)
	if onCPU { // from which size on are the GPUs worth it? It is known from the last start, or takes a second.
		if err := h.worth.Learn(ctx); err != nil {
			log.Print(err)
		}
		log.Print(h.worth)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("listening on %s, CUDA is %s", l.Addr(), rt.Outcome())
	s := newService(rt, h, limit)
	stop := context.AfterFunc(ctx, func() { s.ending.Store(true) })
	defer stop()
	return serve(ctx, l, s.handler(), grace)
}

// logged calls a Close. All requests were answered before, whatever its error is.
func logged(close func() error) {
	if err := close(); err != nil {
		log.Print(err)
	}
}

// serve answers requests until ctx ends. Then it takes no new ones, waits for those under
// way, and cancels what is left after the grace.
func serve(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute, // of a whole upload
		IdleTimeout:       time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := server.Shutdown(limit)
	if err != nil {
		err = errors.Join(err, server.Close()) // which ends the contexts of the requests
	}
	<-ended
	return err
}
