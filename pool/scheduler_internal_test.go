package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// started is a crew whose participants a test runs itself.
type started []int

func (s *started) startParticipant(i int) { *s = append(*s, i) }
func (s *started) ordinal(i int) int      { return i }
func (s *started) lost() bool             { return false }

// TestAPieceComesBeforeTheOtherLeaves has a participant that finds no more pieces, and before it has left, the other one fails or cannot
// work at all. It does what is left.
func TestAPieceComesBeforeTheOtherLeaves(t *testing.T) {
	fails := func(unfit bool) func(*scheduler) {
		return func(s *scheduler) {
			k, ok := s.take(1, 10)
			assert.True(t, ok)
			s.record(1, k, spent{}, errors.New("it failed"), unfit)
			_, ok = s.take(1, 10)
			assert.False(t, ok)
		}
	}
	for name, fail := range map[string]func(*scheduler){
		"unfit": fails(true), "a retry": fails(false),
		"unusable": func(s *scheduler) { s.recordUnusable(1, errors.New("no context")) },
	} {
		for _, first := range []int{0, 1} { // who leaves first
			t.Run(name, func(t *testing.T) {
				crew := started{}
				s := &scheduler{minPiece: 1, retries: 1, crew: &crew, cancel: func(error) {}, ended: make(chan struct{}),
					participants: []participant{{weight: 1}, {device: 1, weight: 1}}}
				s.divide([]float64{1, 1}, s.cut(2, 0, 1, 0))
				s.begin(context.Background())
				require.True(t, s.enter(0))
				require.True(t, s.enter(1))
				k, ok := s.take(0, 10)
				require.True(t, ok)
				s.record(0, k, spent{}, nil, false)
				_, ok = s.take(0, 10)
				require.False(t, ok)
				fail(s)
				s.leave(first)
				s.leave(1 - first)
				require.Equal(t, started{0, 1, 0}, crew)
				require.True(t, s.enter(0))
				k, ok = s.take(0, 10)
				require.True(t, ok)
				s.record(0, k, spent{}, nil, false)
				s.leave(0)
				<-s.ended
				_, err := s.result()
				assert.NoError(t, err)
			})
		}
	}
}
