package job

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Verify says which chunks are hashed once more with crypto/sha256 and compared.
// The zero value is "auto".
type Verify struct {
	mode     verifyMode
	fraction float64
	// Seed chooses the sample. The same seed over the same input and chunk size
	// verifies the same chunks.
	Seed uint64
}

type verifyMode uint8

const (
	verifyAuto verifyMode = iota
	verifyAll
	verifySample
	verifyNone
)

// The rule of "auto": every chunk up to autoAllBytes of input, and above it one in
// autoOneIn, but at least autoChunks.
const (
	autoAllBytes = 64 << 20
	autoOneIn    = 64
	autoChunks   = 4096
)

// ParseVerify reads "auto", "all", "none", a percentage such as "5%" or a fraction
// such as "0.05", above 0 and up to 100% or 1.
func ParseVerify(text string) (Verify, error) {
	switch word := strings.ToLower(strings.TrimSpace(text)); word {
	case "auto":
		return Verify{}, nil
	case "all":
		return Verify{mode: verifyAll}, nil
	case "none":
		return Verify{mode: verifyNone}, nil
	default:
		number, percent := strings.CutSuffix(word, "%")
		fraction, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			fraction /= 100
		}
		if err != nil || math.IsNaN(fraction) || fraction <= 0 || fraction > 1 {
			return Verify{}, &Error{Kind: InvalidArgument,
				Detail: fmt.Sprintf("%q is not auto, all, none, or a share above 0%% and up to 100%% such as 5%% or 0.05", text)}
		}
		return Verify{mode: verifySample, fraction: fraction}, nil
	}
}

// resolve turns "auto" into what it means for an input.
func (v Verify) resolve(totalBytes, totalChunks int64) Verify {
	if v.mode == verifyAuto {
		v.mode, v.fraction = verifySample, max(1.0/autoOneIn, autoChunks/float64(totalChunks))
		if totalBytes <= autoAllBytes {
			v.mode = verifyAll
		}
	}
	if v.mode == verifySample && v.fraction >= 1 {
		v.mode = verifyAll
	}
	switch v.mode {
	case verifyAll:
		v.fraction = 1
	case verifyNone:
		v.fraction = 0
	}
	return v
}

func (v Verify) modeName() string {
	return [...]string{verifyAuto: "auto", verifyAll: "all", verifySample: "sample", verifyNone: "none"}[v.mode]
}

// picks says whether a chunk is in the sample, by its number among all chunks of the job.
// It depends on nothing else but the seed: not on who hashes the chunk, nor on the batch
// that it is in, so that a sample can be repeated. The first chunk is always in it.
func (v Verify) picks(number int64) bool {
	switch v.mode {
	case verifyNone:
		return false
	case verifySample:
		return number == 0 || float64(rand.NewPCG(v.Seed, uint64(number)).Uint64()>>11)*0x1p-53 < v.fraction
	}
	return true
}

// verify compares digests of the batch with crypto/sha256 over the same data.
func (r *run) verify(ctx context.Context, b *batch) error {
	for i, c := range b.Chunks {
		if !r.verifyPlan.picks(b.number + int64(i)) {
			continue
		}
		want, err := hashChunk(ctx, b.Data[c.Offset:c.Offset+uint64(c.Length)], r.rounds)
		if err != nil {
			return canceled(ctx)
		}
		if got := b.Digests[i]; got != want {
			return r.mismatch(b, i, r.places[b.place].Name, want)
		}
		if r.rehash != nil {
			b.before = append(b.before, sample{i, want})
		}
		b.checked++
	}
	return nil
}

// mismatch is the error about chunk i of a batch.
func (r *run) mismatch(b *batch, i int, where string, want Digest) error {
	path, number := r.where(b, i)
	return &Error{Kind: DigestMismatch, Path: path, Detail: fmt.Sprintf("chunk %d: %s computed %s, crypto/sha256 says %s",
		number, where, hex.EncodeToString(b.Digests[i][:]), hex.EncodeToString(want[:]))}
}

// where is the file of chunk i of the batch, and the chunk's number in it.
func (r *run) where(b *batch, i int) (path string, number int64) {
	for _, s := range b.spans {
		if i < s.first+s.chunks {
			return r.in.Name(s.file), s.from/int64(r.opt.ChunkBytes) + int64(i-s.first)
		}
	}
	return r.in.Path, b.number + int64(i)
}
