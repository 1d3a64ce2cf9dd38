package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// The kinds of errors of this package.
const (
	// ErrNoWorker: no host serves the function, or no other one where one is needed.
	ErrNoWorker driver.Kind = "NoWorker"
	// ErrDisconnected: there is no connection to a server, or its streams do not answer.
	ErrDisconnected driver.Kind = "Disconnected"
	// ErrPermission: the server refuses something that the connection's user may not do.
	ErrPermission driver.Kind = "Permission"
	// ErrQuota: a limit of the server, of a stream or of the account is reached.
	ErrQuota driver.Kind = "Quota"
	// ErrPoison: a piece was delivered several times, and no host has answered.
	ErrPoison driver.Kind = "Poison"
	// ErrHostLost is the cause of a try whose host does not answer any more.
	ErrHostLost driver.Kind = "HostLost"
	// ErrMismatch: two hosts gave different results for a piece, or data have another digest.
	ErrMismatch driver.Kind = "Mismatch"
)

// The reasons of reports, besides package pool's.
const (
	NoWorker     pool.Reason = "no worker"
	Disconnected pool.Reason = "disconnected"
	Refused      pool.Reason = "refused" // by rights or limits of the server
)

// TryError is a try of a piece that has failed.
type TryError struct {
	Host   string // or empty: a host that did not tell
	Device int    // ordinal, or driver.NoDevice
	Err    error
}

// Error names the host and the cause.
func (e *TryError) Error() string {
	host := e.Host
	if host == "" {
		host = "unknown"
	}
	if e.Device == driver.NoDevice {
		return fmt.Sprintf("host %s: %v", host, e.Err)
	}
	return fmt.Sprintf("host %s, device %d: %v", host, e.Device, e.Err)
}

// Unwrap returns the cause.
func (e *TryError) Unwrap() error { return e.Err }

// storeFailed is the code of the server for a message that a stream does not take.
const storeFailed jetstream.ErrorCode = 10077

// alreadyThere tells whether a stream has a message of the subject, so that it does not take another one.
func alreadyThere(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == storeFailed && strings.Contains(api.Description, "per subject")
}

// streamLost tells whether the server does not have a stream any more.
func streamLost(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// scarce tells whether the servers have too little of something that they may soon have again: they do not see each other, for example.
func scarce(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == 10023
}

// classify makes an error of this package of one of the client. Others stay as they are.
func classify(nc *nats.Conn, what string, err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case storeFailed, 10002, 10023, 10026, 10027, 10028, 10047, 10054, 10120, 10122:
			return driver.Errorf(ErrQuota, "%s: %w", what, err)
		case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
			return driver.Errorf(driver.ErrUnsupported, "%s: the server has no JetStream for this user: %w", what, err)
		}
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return driver.Errorf(driver.ErrUnsupported, "%s: the server has no JetStream for this user: %w", what, err)
	}
	silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout)
	if refused := permissionError(nc); silent && refused != nil {
		return driver.Errorf(ErrPermission, "%s: %w", what, refused)
	}
	if nc.IsClosed() || silent || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) {
		return driver.Errorf(ErrDisconnected, "%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// permissionError is a refusal that the server has told last. A refused publication has no other answer.
func permissionError(nc *nats.Conn) error {
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// is tells whether an error has a kind.
func is(err error, kinds ...driver.Kind) bool {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}
