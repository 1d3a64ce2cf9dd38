package cluster

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

const (
	// maxValue is how large data are that go with a message.
	maxValue = 64 << 10
	// maxData is how large the data of a piece and its result may be, as in package isolate.
	maxData = 16 << 20
	// maxHead limits the references of a piece.
	maxHead = 32 << 10
	// maxMessage is what the streams take.
	maxMessage = maxValue + maxHead + 1<<10
)

// pieceHead is what a host gets besides the data of a piece.
type pieceHead struct {
	Deadline time.Duration `json:"d"`
	Function string        `json:"f,omitempty"` // of a piece for one host, and
	Piece    string        `json:"p,omitempty"` // its CALLER.CALL.PIECE
	Try      int           `json:"t,omitempty"`
	Refs     []Ref         `json:"r,omitempty"`
	Large    *Ref          `json:"l,omitempty"` // the data, where they do not go with the message
}

// resultHead is what a caller gets besides the result.
type resultHead struct {
	Host   string          `json:"h"` // ID
	Name   string          `json:"n"`
	Try    int             `json:"y,omitempty"`
	Device int             `json:"d"`
	Where  pool.Place      `json:"w,omitempty"`
	Reason pool.Reason     `json:"s,omitempty"`
	Ran    time.Duration   `json:"-"`           // before the JSON: the rest is the same for most pieces
	Error  json.RawMessage `json:"e,omitempty"` // of isolate.EncodeError
	Large  *Ref            `json:"l,omitempty"`
}

// message makes a message: a line with a time and the head, and the data. A header of NATS costs more, here and in the server.
func message(subject string, head any, ran time.Duration, data []byte) (*nats.Msg, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHead {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "the references of a piece take %d bytes: want at most %d", len(text), maxHead)
	}
	all := make([]byte, 0, 24+len(text)+len(data))
	all = append(strconv.AppendInt(all, int64(ran), 10), ' ')
	all = append(append(all, text...), '\n')
	return &nats.Msg{Subject: subject, Data: append(all, data...)}, nil
}

// heads decodes the heads of messages, and remembers them: in one call most are the same.
type heads[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

func (h *heads[T]) read(m *nats.Msg) (head T, ran time.Duration, data []byte, err error) {
	line, data, _ := bytes.Cut(m.Data, []byte{'\n'})
	number, text, whole := bytes.Cut(line, []byte{' '})
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || !whole {
		return head, 0, nil, driver.Errorf(driver.ErrInvalidArgument, "a message on %s that is not of this package", m.Subject)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.known[string(text)]
	if ok {
		return head, time.Duration(n), data, nil
	}
	if err = json.Unmarshal(text, &head); err == nil && len(text) < 256 {
		if h.known == nil || len(h.known) > 1000 {
			h.known = map[string]T{}
		}
		h.known[string(text)] = head
	}
	return head, time.Duration(n), data, err
}

// readResult decodes a result.
func (c *Cluster) readResult(m *nats.Msg) (head resultHead, data []byte, err error) {
	head, ran, data, err := c.heads.read(m)
	head.Ran = ran
	return head, data, err
}

// refusal is why a stream did not take a message, or nil. m is its answer.
func refusal(m *nats.Msg) error {
	if len(m.Data) == 0 { // status 503
		return jetstream.ErrNoStreamResponse
	}
	if bytes.Contains(m.Data, []byte(`"stream":`)) && !bytes.Contains(m.Data, []byte(`"error"`)) {
		return nil
	}
	var answer struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return err
	case answer.Error != nil:
		return answer.Error
	case answer.Stream == "":
		return jetstream.ErrInvalidJSAck
	}
	return nil
}
