package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

// key makes an NKey, and returns its public part and the option that uses it.
func key(t *testing.T) (string, nats.Option) {
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	return public, nats.Nkey(public, pair.Sign)
}

// certificate makes one for this machine, and returns the configurations of a server and of its clients.
func certificate(t *testing.T) (server, client *tls.Config) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}},
		&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
}

// guarded starts a server with TLS, NKeys and a configuration of permissions.
func guarded(t *testing.T, host, caller string, p, q cluster.Permissions) (*embedded.Server, *tls.Config) {
	return guardedBy(t, fmt.Sprintf("{ nkey: %s, permissions: %s }\n{ nkey: %s, permissions: %s }\n", host, p, caller, q))
}

func guardedBy(t *testing.T, users string) (*embedded.Server, *tls.Config) {
	file := filepath.Join(t.TempDir(), "users.conf")
	require.NoError(t, os.WriteFile(file, []byte("authorization { users = [\n"+users+"] }\n"), 0o600))
	parsed, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	ours, theirs := certificate(t)
	return start(t, embedded.Config{Listen: "127.0.0.1:0", Options: func(o *server.Options) {
		o.Nkeys, o.TLS, o.TLSConfig = parsed.Nkeys, true, ours
	}}), theirs
}

// TestLeastPermissions does everything with the rights that are generated, and nothing is refused.
func TestLeastPermissions(t *testing.T) {
	functions := []string{"square/v1", "echo/v1", "sum/v1", "wait/v1"}
	hostRights, err := cluster.HostPermissions("purecuda", "*", "_INBOX_host", functions...)
	require.NoError(t, err)
	callerRights, err := cluster.CallerPermissions("purecuda", "_INBOX_caller")
	require.NoError(t, err)
	host, asHost := key(t)
	caller, asCaller := key(t)
	s, trust := guarded(t, host, caller, hostRights, callerRights)
	refusals := make(chan error, 1000)
	heard := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err })
	dial := func(inbox string, options ...nats.Option) *nats.Conn {
		nc, err := nats.Connect(s.URL(), append(options, nats.Secure(trust), nats.CustomInboxPrefix(inbox), heard)...)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	serveFunctions(t, dial("_INBOX_host", asHost), openPool(t, 1), "one", functions)
	serveFunctions(t, dial("_INBOX_host", asHost), openPool(t, 1), "two", functions)
	c := open(t, dial("_INBOX_caller", asCaller), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	squares(t, c, "square/v1", 5000, cluster.WithVerify(0.01)) // more than are purged at once
	large := make([]byte, 200<<10)
	out, _, err := cluster.Do(within(t), c, "echo/v1", cluster.Piece{Data: large})
	require.NoError(t, err)
	assert.Len(t, out, len(large))
	r, err := c.Put(within(t), "object", large)
	require.NoError(t, err)
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{r}})
	require.NoError(t, err)
	c.Drop(r)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	_, _, err = cluster.Do(ctx, c, "wait/v1", cluster.Piece{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Close())
	select {
	case err := <-refusals:
		t.Error(err)
	default:
	}
	_, err = nats.Connect(s.URL(), nats.Secure(trust))
	assert.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(s.URL(), asCaller)
	assert.Error(t, err, "without the certificate")
}

// TestRefusedPermissions has rights missing: the error says which, and does not show as a time-out.
func TestRefusedPermissions(t *testing.T) {
	host, asHost := key(t)
	caller, asCaller := key(t)
	hostRights, err := cluster.HostPermissions("purecuda", "host", "_INBOX_host", "square/v1")
	require.NoError(t, err)
	callerRights, err := cluster.CallerPermissions("purecuda", "_INBOX_caller")
	require.NoError(t, err)
	without := func(all []string, prefix string) (some []string) {
		for _, s := range all {
			if len(s) < len(prefix) || s[:len(prefix)] != prefix {
				some = append(some, s)
			}
		}
		return some
	}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	t.Run("results", func(t *testing.T) {
		rights := cluster.Permissions{Publish: without(hostRights.Publish, "purecuda.v1.result"), Subscribe: hostRights.Subscribe}
		s, trust := guarded(t, host, caller, rights, callerRights)
		nc, err := nats.Connect(s.URL(), asHost, nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_host"), quiet)
		require.NoError(t, err)
		defer nc.Close()
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		p := openPool(t, 1)
		go func() { served <- cluster.Serve(ctx, nc, p, []string{"square/v1"}, cluster.WithHostName("host")) }()
		cc, err := nats.Connect(s.URL(), asCaller, nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_caller"), quiet)
		require.NoError(t, err)
		defer cc.Close()
		c := open(t, cc, cluster.WithPatience(patience))
		called, end := context.WithCancel(within(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = cluster.Do(called, c, "square/v1", cluster.Piece{Data: number(1)}) // it is ended below
		}()
		err = <-served
		assert.ErrorIs(t, err, cluster.ErrPermission)
		assert.ErrorContains(t, err, "purecuda.v1.result")
		end()
		<-done
	})
	t.Run("streams", func(t *testing.T) {
		rights := cluster.Permissions{Publish: without(callerRights.Publish, "$JS.API.STREAM.CREATE"), Subscribe: callerRights.Subscribe}
		s, trust := guarded(t, host, caller, hostRights, rights)
		nc, err := nats.Connect(s.URL(), asCaller, nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_caller"), quiet)
		require.NoError(t, err)
		defer nc.Close()
		_, err = cluster.Open(within(t), nc)
		assert.ErrorIs(t, err, cluster.ErrPermission)
		assert.ErrorContains(t, err, "STREAM.CREATE")
	})
	t.Run("work", func(t *testing.T) {
		rights := cluster.Permissions{Publish: without(callerRights.Publish, "purecuda.v1.work"), Subscribe: callerRights.Subscribe}
		s, trust := guarded(t, host, caller, hostRights, rights)
		nc, err := nats.Connect(s.URL(), asHost, nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_host"), quiet)
		require.NoError(t, err)
		defer nc.Close()
		stop := serveFunctions(t, nc, openPool(t, 1), "host", []string{"square/v1"})
		defer stop()
		cc, err := nats.Connect(s.URL(), asCaller, nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_caller"), quiet)
		require.NoError(t, err)
		defer cc.Close()
		c := open(t, cc, cluster.WithPatience(patience))
		_, _, err = cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(1)})
		assert.ErrorIs(t, err, cluster.ErrPermission)
		assert.ErrorContains(t, err, "purecuda.v1.work")
	})
}

// TestQuota has a server without room.
func TestQuota(t *testing.T) {
	s := start(t, embedded.Config{MaxMemory: 1 << 20})
	_, err := cluster.Open(within(t), connect(t, s), cluster.WithMaxBytes(1<<30))
	assert.ErrorIs(t, err, cluster.ErrQuota)

	// A full stream is no failure while pieces are done.
	s = start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(8))
	c := open(t, connect(t, s), cluster.WithPatience(patience), cluster.WithMaxBytes(200<<10))
	large := make([]byte, 50<<10)
	_, _, err = cluster.Map(within(t), c, "echo/v1", [][]byte{large, large, large, large, large, large, large, large, large, large})
	require.NoError(t, err)
}
