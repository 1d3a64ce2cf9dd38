package job

// span is a run of whole chunks of one file within a batch. Its bytes are read in
// one go.
type span struct {
	file   int         // index into Input.Files
	shared *sharedFile // where the file reaches into other batches; else nil
	from   int64       // first byte, in the file
	bytes  int64
	first  int // index of its first chunk in the batch
	chunks int
}

// batch is a Batch with what the job knows of it. Batches are reused: no memory is allocated
// for a batch after the first few.
type batch struct {
	Batch
	number  int64 // position of its first chunk among all chunks of the job
	spans   []span
	before  []sample // where rounds follow: what they begin with, of the chunks to verify
	bytes   int64    // of content
	checked int64    // chunks verified
	place   int      // where it was hashed
	failed  error    // of a device
}

// reset empties the batch and keeps its memory.
func (b *batch) reset() {
	*b = batch{Batch: Batch{Chunks: b.Chunks[:0], Digests: b.Digests[:0]}, spans: b.spans[:0], before: b.before[:0]}
}

// planner cuts the input into batches, one at a time and in order.
type planner struct {
	in    *Input
	chunk int // chunk size in bytes
	open  func(path string) (content, error)

	file   int   // next file
	off    int64 // next byte in it
	shared *sharedFile
	all    map[*sharedFile]struct{} // those that may still be open
	number int64
}

// next fills b, which is empty, with the following batch, of at most the given shape, and returns false after
// the last one. The shape has room for any chunk.
func (p *planner) next(b *batch, shape Shape) bool {
	b.number = p.number
	used := 0
	for p.file < len(p.in.Files) {
		left := p.in.Files[p.file].Size - p.off
		if left == 0 {
			p.file, p.off, p.shared = p.file+1, 0, nil
			continue
		}
		n, bytes := p.fit(left, shape.Bytes-used, shape.Chunks-len(b.Chunks))
		if n == 0 {
			break
		}
		b.spans = append(b.spans, span{
			file: p.file, shared: p.share(left, bytes), from: p.off, bytes: bytes, first: len(b.Chunks), chunks: n,
		})
		for done := int64(0); done < bytes; done += int64(p.chunk) {
			length := min(int64(p.chunk), bytes-done)
			b.Chunks = append(b.Chunks, Chunk{Offset: uint64(used), Length: uint32(length)})
			used += align(int(length))
		}
		b.bytes += bytes
		p.off += bytes
	}
	if len(b.Chunks) == 0 {
		return false
	}
	p.number += int64(len(b.Chunks))
	return true
}

// fit is how many of the next chunks of a file go into room bytes and slots descriptors, and how
// many bytes of the file they are. left bytes of the file remain.
func (p *planner) fit(left int64, room, slots int) (n int, bytes int64) {
	whole := left / int64(p.chunk)
	n = int(min(whole, int64(room/align(p.chunk)), int64(slots)))
	bytes = int64(n) * int64(p.chunk)
	if rest := left - bytes; int64(n) == whole && rest > 0 && n < slots && room-n*align(p.chunk) >= align(int(rest)) {
		return n + 1, left
	}
	return n, bytes
}

// share returns the shared file for the next span, of the given bytes out of left,
// or nil where the span is the whole file.
func (p *planner) share(left, bytes int64) *sharedFile {
	if p.off == 0 && bytes == left {
		return nil
	}
	if p.shared == nil {
		f := p.in.Files[p.file]
		p.shared = &sharedFile{path: p.in.Name(p.file), size: f.Size, open: p.open}
		if p.all == nil {
			p.all = map[*sharedFile]struct{}{}
		}
		for s := range p.all { // forget those that are done, at most a few
			if s.done() {
				delete(p.all, s)
			}
		}
		p.all[p.shared] = struct{}{}
	}
	p.shared.retain(bytes == left)
	return p.shared
}

// close closes the files that a job which ended early has left open.
func (p *planner) close() {
	for s := range p.all {
		s.abandon()
	}
}
