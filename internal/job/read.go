package job

import (
	"context"

	"github.com/purecuda/purecuda/kernels"
)

// read brings the content of the batch into buf, every chunk to its offset.
func (p *planner) read(ctx context.Context, b *batch, buf []byte) error {
	for i := range b.spans {
		s := &b.spans[i]
		chunks := b.Chunks[s.first : s.first+s.chunks]
		region := buf[chunks[0].Offset:]
		if err := p.readSpan(ctx, s, region[:s.bytes]); err != nil {
			return err
		}
		spread(region, chunks, p.chunk)
	}
	return nil
}

func (p *planner) readSpan(ctx context.Context, s *span, dst []byte) error {
	if s.shared == nil {
		path, size := p.in.Name(s.file), p.in.Files[s.file].Size
		f, opened, err := openListed(p.open, path, size)
		if err != nil {
			return err
		}
		if err := readFull(ctx, f, path, dst, s.from); err != nil {
			_ = f.Close() // opened for reading only, nothing is lost
			return err
		}
		return closeListed(f, path, size, opened)
	}
	f, err := s.shared.acquire()
	if err != nil {
		return err
	}
	if err := readFull(ctx, f, s.shared.path, dst, s.from); err != nil {
		return err // planner.close closes the file
	}
	return s.shared.release()
}

// spread moves chunks that were read back to back at the start of region to their
// aligned offsets. Nothing moves where the chunk size is a multiple of kernels.ChunkAlign.
func spread(region []byte, chunks []Chunk, chunkBytes int) {
	if chunkBytes%kernels.ChunkAlign == 0 {
		return
	}
	base := chunks[0].Offset
	for i := len(chunks) - 1; i > 0; i-- { // from the end: a chunk only ever moves up
		from := i * chunkBytes
		copy(region[chunks[i].Offset-base:], region[from:from+int(chunks[i].Length)])
	}
}
