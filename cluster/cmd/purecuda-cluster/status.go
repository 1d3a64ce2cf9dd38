package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/internal/cleantext"
)

func statusCommand(f *flag.FlagSet) func(context.Context, io.Writer) error {
	var c connection
	c.setCaller(f)
	once := f.Bool("once", false, "print one table and end")
	return func(ctx context.Context, out io.Writer) error {
		if c.url == "" {
			return usageError("status needs --nats")
		}
		nc, err := c.dial(ctx)
		if err != nil {
			return err
		}
		defer nc.Close()
		all, err := c.open(ctx, nc)
		if err != nil {
			return err
		}
		defer all.Close()
		before := map[string]uint64{}
		for first := true; ; first = false {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			hosts := all.Hosts()
			queue, err := all.Queue(ctx)
			if err != nil && !errors.Is(err, cluster.ErrDisconnected) {
				return err
			}
			if !*once && !first {
				fmt.Fprint(out, "\033[H\033[2J")
			}
			table(out, hosts, queue, before)
			if *once {
				return nil
			}
		}
	}
}

// table prints the hosts. before has the pieces of the last table, for rates.
func table(out io.Writer, hosts []cluster.Host, queue int, before map[string]uint64) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tSTATE\tDEVICES\tBUSY\tWAITING\tDONE\tFAILED\tPIECES/S")
	slots, busy, rate := 0, 0, uint64(0)
	for _, h := range hosts {
		state := "serves"
		switch {
		case h.Draining:
			state = "drains"
		case h.Slots == 0:
			state = "no device"
		}
		works := 0
		for _, d := range h.Devices {
			works += btoi(d.Err == "")
		}
		now := uint64(0)
		if last, ok := before[h.ID]; ok {
			now = h.Done - last
		}
		before[h.ID] = h.Done
		slots, busy, rate = slots+h.Slots, busy+h.Busy, rate+now
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%d/%d\t%d\t%d\t%d\t%d\n", cleantext.String(h.Name), state, works, len(h.Devices), h.Busy, h.Slots, h.Waiting, h.Done, h.Failed, now)
	}
	_ = w.Flush() // of the writer of the program, which nobody can help
	for _, h := range hosts {
		for _, d := range h.Devices {
			if d.Err != "" {
				fmt.Fprintf(out, "%s, device %d: %s\n", cleantext.String(h.Name), d.Ordinal, cleantext.String(d.Err))
			}
		}
	}
	fmt.Fprintf(out, "%d hosts, %d of %d slots busy, %d pieces in the queue, %d pieces/s\n", len(hosts), busy, slots, queue, rate)
}

func benchCommand(f *flag.FlagSet) func(context.Context, io.Writer) error {
	var c connection
	c.setCaller(f)
	n := f.Int("pieces", 20_000, "how many pieces to send")
	size := f.Int("bytes", 64, "how large they are")
	return func(ctx context.Context, out io.Writer) error {
		if c.url == "" || *n < 1 || *size < 0 {
			return usageError("bench needs --nats, at least one of --pieces, and --bytes that are not negative")
		}
		nc, err := c.dial(ctx)
		if err != nil {
			return err
		}
		defer nc.Close()
		all, err := c.open(ctx, nc)
		if err != nil {
			return err
		}
		defer all.Close()
		p := cluster.Piece{Data: make([]byte, *size)}
		times := make([]time.Duration, 0, 200)
		for range cap(times) {
			began := time.Now()
			if _, _, err := cluster.Do(ctx, all, echoFunction, p); err != nil {
				return err
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		began := time.Now()
		_, err = cluster.Scatter(ctx, all, echoFunction, *n, func(int) (cluster.Piece, error) { return p, nil }, func(int, []byte) error { return nil })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "one piece at a time: %v, at most %v\n%d pieces of %d bytes: %.0f pieces/s\n", times[len(times)/2], times[len(times)-1], *n, *size,
			float64(*n)/time.Since(began).Seconds())
		return nil
	}
}

func permissionsCommand(f *flag.FlagSet) func(context.Context, io.Writer) error {
	name := f.String("cluster", "purecuda", "the `name` of the cluster")
	hosts := map[string]string{}
	f.Func("host", "`NAME=NKEY`: the --name of a worker and its public NKey; may be repeated (default node1=UHOST)", func(text string) error {
		host, key, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("want NAME=NKEY")
		}
		hosts[hostName(host)] = key
		return nil
	})
	caller := f.String("caller-nkey", "UCALLER", "the public `NKey` of the callers")
	functions := []string{hashFunction, echoFunction}
	f.Func("function", "a `name` that the workers serve besides those of this program; may be repeated", func(text string) error {
		functions = append(functions, text)
		return nil
	})
	return func(_ context.Context, out io.Writer) error {
		if len(hosts) == 0 {
			hosts["node1"] = "UHOST"
		}
		var users strings.Builder
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			inbox := "_INBOX_" + host
			rights, err := cluster.HostPermissions(*name, host, inbox, functions...)
			if err != nil {
				return usageError(err.Error())
			}
			fmt.Fprintf(&users, "    # a worker: --name %s --inbox %s\n    { nkey: %s, permissions: %s }\n", host, inbox, hosts[host], rights)
		}
		callers, err := cluster.CallerPermissions(*name, "_INBOX_caller")
		if err != nil {
			return usageError(err.Error())
		}
		_, err = fmt.Fprintf(out, "authorization {\n  users = [\n%s    # callers: --inbox _INBOX_caller\n    { nkey: %s, permissions: %s }\n  ]\n}\n", users.String(), *caller, callers)
		return err
	}
}
