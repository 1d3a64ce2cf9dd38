package cluster

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

const (
	// maxPayload is how large messages are at most, where a server takes larger ones.
	maxPayload = 8 << 20
	// maxData is how large the data of a piece and what a function returns may be, as in package isolate.
	maxData = 16 << 20
	// maxHead limits the references of a piece.
	maxHead = 32 << 10
	// minStream is how large the streams are at least.
	minStream = 97 << 10
)

// pieceHead is what a host gets besides the data of a piece.
type pieceHead struct {
	Deadline time.Duration `json:"d"`
	Function string        `json:"f,omitempty"` // of a piece for one host, and
	Piece    string        `json:"p,omitempty"` // its CALLER.CALL.PIECE
	Try      int           `json:"t,omitempty"`
	Refs     []Ref         `json:"r,omitempty"`
	Large    *Ref          `json:"l,omitempty"` // the data, where they do not go with the message
	Result   int64         `json:"o,omitempty"` // of Piece
	Trace    string        `json:"x,omitempty"` // of the call: a traceparent of W3C, for example
}

// resultHead is what a caller gets besides the result.
type resultHead struct {
	Host   string          `json:"-"` // the name, which is in the subject
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
	if err != nil || !whole || len(text) > maxHead {
		return head, 0, nil, foreign(m)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.known[string(text)]
	if ok {
		return head, time.Duration(n), data, nil
	}
	if err = json.Unmarshal(text, &head); err == nil && len(text) < 512 {
		if h.known == nil || len(h.known) > 1000 {
			h.known = map[string]T{}
		}
		h.known[string(text)] = head
	}
	return head, time.Duration(n), data, err
}

// What comes from others is not trusted: the functions below take a message apart, and refuse what is outside of what this package sends.

const (
	maxDeadline = 30 * 24 * time.Hour
	maxHealth   = 64 << 10
	maxSlots    = 1 << 16
	maxDevice   = 1 << 16
)

func foreign(m *nats.Msg) error {
	return driver.Errorf(driver.ErrInvalidArgument, "a message on %.200s that is not of this package", m.Subject)
}

// isPiece tells whether a text is CALLER.CALL.PIECE: it becomes part of subjects.
func isPiece(id string) bool {
	call, number := splitLast(id)
	return isCall(call) && isNumber(number)
}

// isCall tells whether a text is CALLER.CALL.
func isCall(id string) bool {
	caller, number := splitLast(id)
	return len(id) <= 200 && checkToken("", caller) == nil && isNumber(number)
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 63)
	return err == nil
}

// check checks the head of a piece, and its name. The references are checked where somebody can be told.
func (h *pieceHead) check(piece string) error {
	if !isPiece(piece) || h.Deadline <= 0 || h.Deadline > maxDeadline || h.Try < 0 || h.Result < 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "piece %.200q with try %d and a deadline of %v: want CALLER.CALL.PIECE, 0 and more, and at most %v", piece, h.Try, h.Deadline, maxDeadline)
	}
	return nil
}

// readResult decodes what a host tells about a piece: a result, or with the kind "begin" a note. Who the host is says the subject, because
// the server enforces that.
func (c *Cluster) readResult(kind string, m *nats.Msg) (function, piece string, head resultHead, data []byte, err error) {
	rest, ours := strings.CutPrefix(m.Subject, c.names.subject(kind, ""))
	function, rest, _ = strings.Cut(rest, ".")
	host, piece, _ := strings.Cut(rest, ".")
	if kind == "result" {
		piece, _ = splitLast(piece)
	}
	head, ran, data, err := c.heads.read(m)
	head.Host, head.Ran = host, ran
	if err == nil && (!ours || !isPiece(piece) || checkToken("", host) != nil || ran < 0 || head.Device < driver.NoDevice || head.Device > maxDevice ||
		head.Large != nil && head.Large.URI != "object:"+resultObject(piece, host)) { // the caller deletes the object
		err = foreign(m)
	}
	return function, piece, head, data, err
}

// readHealth decodes what a host tells about itself.
func (n names) readHealth(m *nats.Msg) (h Host, err error) {
	id, ours := strings.CutPrefix(m.Subject, n.subject("health", ""))
	name, serve := splitLast(id)
	if !ours || len(m.Data) > maxHealth || checkToken("", name) != nil || checkToken("", serve) != nil {
		return Host{}, foreign(m)
	}
	if err := json.Unmarshal(m.Data, &h); err != nil {
		return Host{}, err
	}
	h.ID, h.Name = id, name
	for _, number := range []int{h.Slots, h.Busy, h.Waiting} {
		if number < 0 || number > maxSlots {
			return Host{}, foreign(m)
		}
	}
	return h, nil
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
