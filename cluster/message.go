package cluster

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

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

// headKey is the header that all messages have.
const headKey = "Purecuda"

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
	Where  pool.Where      `json:"w,omitempty"`
	Reason pool.Reason     `json:"s,omitempty"`
	Waited time.Duration   `json:"q,omitempty"`
	Ran    time.Duration   `json:"t,omitempty"`
	Error  json.RawMessage `json:"e,omitempty"` // of isolate.EncodeError
	Large  *Ref            `json:"l,omitempty"`
}

// message makes a message with a head.
func message(subject string, head any, data []byte) (*nats.Msg, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHead {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "the references of a piece take %d bytes: want at most %d", len(text), maxHead)
	}
	return &nats.Msg{Subject: subject, Header: nats.Header{headKey: {string(text)}}, Data: data}, nil
}

// readHead decodes the head of a message.
func readHead(m *nats.Msg, head any) error {
	values := m.Header[headKey]
	if len(values) != 1 {
		return driver.Errorf(driver.ErrInvalidArgument, "a message on %s that is not of this package", m.Subject)
	}
	return json.Unmarshal([]byte(values[0]), head)
}
