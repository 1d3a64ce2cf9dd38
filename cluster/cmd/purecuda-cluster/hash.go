package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/pool"
)

type hasher struct {
	connection
	roots    roots
	embedded bool
	workers  int
	simulate int
	input    string
	chunk    int
	rounds   uint
	verify   float64
	deadline time.Duration
	quiet    bool
}

func hashCommand(f *flag.FlagSet) func(context.Context, io.Writer) error {
	h := &hasher{roots: roots{}}
	h.connection.setCaller(f)
	f.Var(h.roots, "root", "`NAME=DIR`: a folder that the workers have under that name; may be repeated")
	f.BoolVar(&h.embedded, "embedded", false, "start a server and workers on this machine (the default without --nats)")
	f.IntVar(&h.workers, "workers", 2, "how many workers --embedded starts")
	f.IntVar(&h.simulate, "simulate", 0, "simulate so many `GPUs` on this machine")
	f.StringVar(&h.input, "input", "", "the file or folder to hash (default: this program)")
	f.IntVar(&h.chunk, "chunk", 4096, "the size of a chunk in `bytes`")
	f.UintVar(&h.rounds, "rounds", 0, "how many times more each digest is hashed")
	f.Float64Var(&h.verify, "verify", 0.01, "the `share` of pieces of which a chunk is hashed here too, 0 to 1")
	f.DurationVar(&h.deadline, "deadline", time.Minute, "how long a piece may take")
	f.BoolVar(&h.quiet, "quiet", false, "print the root only")
	return h.run
}

func (h *hasher) run(ctx context.Context, out io.Writer) (err error) {
	h.embedded = h.embedded || h.url == ""
	switch err := job.CheckChunkBytes(int64(h.chunk)); {
	case err != nil:
		return usageError(err.Error())
	case h.rounds > 1<<32-1 || h.workers < 1 || !(h.verify >= 0 && h.verify <= 1):
		return usageError("want --rounds below 2^32, at least one of --workers, and --verify from 0 to 1")
	}
	if h.input == "" {
		if h.input, err = os.Executable(); err != nil {
			return err
		}
	}
	in, err := job.List(ctx, h.input)
	if err != nil {
		return err
	}
	if h.embedded {
		serving, end, err := h.start(ctx, in)
		if err != nil {
			return err
		}
		defer end()
		ctx = serving
	}
	nc, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := h.open(ctx, nc, cluster.WithPatience(time.Minute), cluster.WithPieceDeadline(h.deadline))
	if err != nil {
		return err
	}
	defer c.Close()
	w := newWork(h, in)
	report, err := cluster.Scatter(ctx, c, hashFunction, len(w.pieces), w.piece, w.take)
	if err == nil {
		err = w.changed()
	}
	if err != nil {
		return err
	}
	h.print(out, in, w, report)
	return nil
}

// start starts a server and workers on this machine, and returns a function that ends them. The context that it returns ends
// when the last worker has.
func (h *hasher) start(ctx context.Context, in *job.Input) (serving context.Context, end func(), err error) {
	token := rand.Text()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", Token: token})
	if err != nil {
		return nil, nil, err
	}
	serving, left := context.WithCancelCause(ctx)
	var running atomic.Int64
	running.Store(int64(h.workers))
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
		left(nil)
		_ = server.Close() // what it had is in the report
	}
	h.url = server.URL()
	h.roots["input"], err = filepath.Abs(strings.TrimSuffix(in.Name(0), filepath.FromSlash(in.Files[0].Path)))
	program, failed := os.Executable()
	if err = errors.Join(err, failed, os.Setenv(tokenVariable, token)); err != nil {
		end()
		return nil, nil, err
	}
	for i := range h.workers {
		args := []string{"worker", "--nats", h.url, "--cluster", h.name, "--name", "worker" + strconv.Itoa(i), "--share", fmt.Sprintf("%d/%d", i, h.workers),
			"--simulate", strconv.Itoa(h.simulate)}
		for name, folder := range h.roots {
			args = append(args, "--root", name+"="+folder)
		}
		worker := exec.CommandContext(ctx, program, args...)
		worker.Cancel = func() error { return worker.Process.Signal(os.Interrupt) }
		worker.Env = append(os.Environ(), ofHash+"=1")
		worker.Stderr = os.Stderr
		stdin, err := worker.StdinPipe()
		if err == nil {
			err = worker.Start()
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = worker.Wait() // its errors are on stderr
			if running.Add(-1) == 0 {
				left(errors.New("no worker is left: each has said why"))
			}
		}()
		ends = append(ends, func() {
			_ = stdin.Close()
			<-ended
		})
	}
	return serving, end, nil
}

const (
	pieceBytes = 4 << 20
	pieceSpans = 64
	pieceNames = 16 << 10 // bytes of names in a piece: messages have a limit
)

// span is a run of whole chunks of a file.
type span struct {
	file     int
	from, to int64
}

// work is the job.
type work struct {
	*hasher
	in     *job.Input
	pieces [][]span
	before map[int]os.FileInfo // the files that were used, when they were
	// waiting are digests whose turn has not come.
	waiting map[int][]byte
	next    int
	chunks  int64
	checked int
	root    interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func newWork(h *hasher, in *job.Input) *work {
	w := &work{hasher: h, in: in, before: map[int]os.FileInfo{}, waiting: map[int][]byte{}, root: sha256.New()}
	step := int64(max(pieceBytes/h.chunk, 1)) * int64(h.chunk)
	var piece []span
	bytes, names := int64(0), 0
	flush := func() {
		if len(piece) > 0 {
			w.pieces = append(w.pieces, piece)
		}
		piece, bytes, names = nil, 0, 0
	}
	for i, f := range in.Files {
		for from := int64(0); from < f.Size; from += step {
			to := min(from+step, f.Size)
			if bytes+to-from > max(step, pieceBytes) || len(piece) == pieceSpans || names+len(f.Path) > pieceNames {
				flush()
			}
			piece = append(piece, span{i, from, to})
			bytes += to - from
			names += len(f.Path)
		}
	}
	flush()
	return w
}

// piece makes a piece: references to files below the roots, and the data of others.
func (w *work) piece(i int) (cluster.Piece, error) {
	request := hashRequest{Chunk: w.chunk, Rounds: uint32(w.rounds), Inline: map[int][]byte{}}
	var p cluster.Piece
	for at, s := range w.pieces[i] {
		uri, err := w.uri(s.file)
		if err == nil && uri == "" {
			request.Inline[at], err = w.read(s.file, s.from, s.to)
		}
		if err != nil {
			return p, err
		}
		if uri != "" {
			p.Refs = append(p.Refs, cluster.Ref{URI: uri, Offset: s.from, Length: s.to - s.from})
		}
	}
	var err error
	p.Data, err = json.Marshal(request)
	return p, err
}

// uri is the reference to a file below a root, or empty: workers read no others, and follow no link out of a root.
func (w *work) uri(file int) (string, error) {
	if w.in.Kept(file) != nil {
		return "", nil
	}
	path := w.in.Name(file)
	if w.before[file] == nil {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		w.before[file] = info
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", err
	}
	for name, folder := range w.roots {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return "", err
		}
		if rest, err := filepath.Rel(real, path); err == nil && filepath.IsLocal(rest) {
			return "file:" + name + "/" + filepath.ToSlash(rest), nil
		}
	}
	return "", nil
}

// read reads a part of a file here.
func (w *work) read(file int, from, to int64) ([]byte, error) {
	if kept := w.in.Kept(file); kept != nil {
		return kept[from:to], nil
	}
	f, err := os.Open(w.in.Name(file))
	if err != nil {
		return nil, err
	}
	data := make([]byte, to-from)
	_, err = f.ReadAt(data, from)
	return data, errors.Join(err, f.Close())
}

// take verifies the digests of a piece and adds them to the root, in order.
func (w *work) take(i int, digests []byte) error {
	want := 0
	for _, s := range w.pieces[i] {
		want += int((s.to - s.from + int64(w.chunk) - 1) / int64(w.chunk))
	}
	if len(digests) != want*sha256.Size {
		return fmt.Errorf("%d bytes of digests for %d chunks", len(digests), want)
	}
	if w.verify > 0 && mathrand.Float64() < w.verify {
		if err := w.check(i, digests); err != nil {
			return err
		}
		w.checked++
	}
	w.waiting[i] = digests
	for w.waiting[w.next] != nil {
		d := w.waiting[w.next]
		delete(w.waiting, w.next)
		w.chunks += int64(len(d) / sha256.Size)
		_, _ = w.root.Write(d) // a hash takes all
		w.next++
	}
	return nil
}

// check hashes one chunk of a piece here.
func (w *work) check(i int, digests []byte) error {
	at := mathrand.IntN(len(digests) / sha256.Size)
	digest := digests[at*sha256.Size:][:sha256.Size]
	for _, s := range w.pieces[i] {
		if n := int((s.to - s.from + int64(w.chunk) - 1) / int64(w.chunk)); at >= n {
			at -= n
			continue
		}
		from := s.from + int64(at)*int64(w.chunk)
		data, err := w.read(s.file, from, min(from+int64(w.chunk), s.to))
		if err != nil {
			return err
		}
		if here := hash(data, uint32(w.rounds)); string(here[:]) != string(digest) {
			return fmt.Errorf("%s: the chunk at byte %d has the digest %x here, and %x there", w.in.Name(s.file), from, here, digest)
		}
		return nil
	}
	return nil
}

// changed tells whether a file was written to meanwhile.
func (w *work) changed() error {
	for i, before := range w.before {
		now, err := os.Stat(w.in.Name(i))
		if err != nil {
			return err
		}
		if now.Size() != w.in.Files[i].Size || !now.ModTime().Equal(before.ModTime()) {
			return fmt.Errorf("%s was written to while it was read", w.in.Name(i))
		}
	}
	return nil
}

func (h *hasher) print(out io.Writer, in *job.Input, w *work, r pool.Report) {
	root := hex.EncodeToString(w.root.Sum(nil))
	if h.quiet {
		fmt.Fprintln(out, root)
		return
	}
	hosts, order := map[string]int{}, []string{}
	for _, t := range r.Tiles {
		if _, ok := hosts[t.Host]; !ok {
			order = append(order, t.Host)
		}
		hosts[t.Host] += t.Len()
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-9s %s", name, cleantext.String(fmt.Sprintf(format, args...))), " "))
	}
	row("input", "%s (%d files, %d bytes)", h.input, len(in.Files), in.Bytes)
	row("chunks", "%d of up to %d bytes, in %d pieces", w.chunks, h.chunk, len(w.pieces))
	for _, host := range order {
		row("ran on", "%s: %d pieces", host, hosts[host])
	}
	row("verified", "a chunk of %d pieces", w.checked)
	row("time", "%.3f s, %.2f GB/s", r.Wall.Seconds(), float64(in.Bytes)/1e9/r.Wall.Seconds())
	row("root", "%s", root)
}
