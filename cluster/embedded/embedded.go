// Package embedded runs a server of NATS in the process, for package cluster. One machine needs nothing installed then, and tests
// need no network:
//
//	server, err := embedded.Start(embedded.Config{})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	nc, err := server.Connect()
//
// It is a package of its own because the server adds 10 MB to a program.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/purecuda/purecuda/driver"
)

// Config says what kind of server Start starts. The zero value is one in memory, without a listener.
type Config struct {
	// Folder is where the server keeps streams with file storage. Without it Start makes a temporary folder, and Close removes it.
	Folder string
	// Listen is the address for other processes and hosts, such as "127.0.0.1:0", where 0 is any free port. Without it there is no
	// listener, and only Connect reaches the server.
	Listen string
	// Token is what those who connect have to know. A listener needs one.
	Token string
	// MaxMemory limits the streams in memory. The default is 4 GiB.
	MaxMemory int64
	// Options changes the options of the server before it starts: TLS, users, limits, routes.
	Options func(*server.Options)
}

// Server is a server in this process.
type Server struct {
	server    *server.Server
	token     string
	temporary string
}

const patience = 30 * time.Second

// Start starts a server, and returns when it takes connections.
func Start(c Config) (s *Server, err error) {
	s = &Server{token: c.Token}
	o := &server.Options{JetStream: true, StoreDir: c.Folder, NoLog: true, NoSigs: true, DontListen: c.Listen == "", Authorization: c.Token,
		JetStreamMaxMemory: c.MaxMemory, ServerName: "purecuda-" + strconv.Itoa(os.Getpid())}
	if o.JetStreamMaxMemory == 0 {
		o.JetStreamMaxMemory = 4 << 30
	}
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err == nil {
			o.Host = host
			o.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "Listen %q: want an address and a port: %w", c.Listen, err)
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
		if c.Token == "" && c.Options == nil {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "a server that listens on %s needs a Token", c.Listen)
		}
	}
	if c.Options != nil {
		c.Options(o)
	}
	if o.StoreDir == "" {
		if o.StoreDir, err = os.MkdirTemp("", "purecuda-nats-"); err != nil {
			return nil, err
		}
		s.temporary = o.StoreDir
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.server, err = server.NewServer(o); err != nil {
		return s, fmt.Errorf("the server of NATS: %w", err)
	}
	fatal := make(fatalLog, 1)
	s.server.SetLogger(fatal, false, false)
	s.server.Start()
	for end := time.Now().Add(patience); !s.server.ReadyForConnections(100 * time.Millisecond); {
		select {
		case err := <-fatal:
			return s, fmt.Errorf("the server of NATS: %w", err)
		default:
		}
		if time.Now().After(end) {
			return s, driver.Errorf(driver.ErrTimeout, "the server of NATS takes no connections after %v", patience)
		}
	}
	return s, nil
}

// fatalLog is a log of the server. It keeps the first cause for which the server cannot start, such as a port that is taken.
type fatalLog chan error

func (f fatalLog) Fatalf(format string, values ...any) {
	select {
	case f <- fmt.Errorf(format, values...):
	default:
	}
}

func (fatalLog) Noticef(string, ...any) {}
func (fatalLog) Warnf(string, ...any)   {}
func (fatalLog) Errorf(string, ...any)  {}
func (fatalLog) Debugf(string, ...any)  {}
func (fatalLog) Tracef(string, ...any)  {}

// Connect connects this process, without a network.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{nats.InProcessServer(s.server), nats.Token(s.token), nats.MaxReconnects(-1), nats.FlusherTimeout(5 * time.Second)}, options...)
	return nats.Connect("", options...)
}

// URL is where other processes connect, or empty.
func (s *Server) URL() string {
	if s.server.Addr() == nil {
		return ""
	}
	return s.server.ClientURL()
}

// Close ends the server.
func (s *Server) Close() error {
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	if s.temporary != "" {
		return os.RemoveAll(s.temporary)
	}
	return nil
}
