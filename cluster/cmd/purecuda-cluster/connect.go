package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/purecuda/purecuda/cluster"
)

// tokenVariable has the token of a server, so that it is in no list of processes.
const tokenVariable = "PURECUDA_CLUSTER_TOKEN"

// connection are the flags of how to reach a server.
type connection struct {
	url, name, creds, nkey, ca, cert, key, inbox string
	replicas                                     int // of the streams, for commands that call
}

// setCaller sets the flags of a command that makes the streams.
func (c *connection) setCaller(f *flag.FlagSet) {
	c.set(f)
	f.IntVar(&c.replicas, "replicas", 0, "on how many servers the streams are (default: all, up to three)")
}

// open opens the cluster.
func (c *connection) open(ctx context.Context, nc *nats.Conn, options ...cluster.Option) (*cluster.Cluster, error) {
	return cluster.Open(ctx, nc, append(options, cluster.WithName(c.name), cluster.WithReplicas(c.replicas))...)
}

func (c *connection) set(f *flag.FlagSet) {
	f.StringVar(&c.url, "nats", "", "the `URL` of a server of NATS, or several with commas between")
	f.StringVar(&c.name, "cluster", "purecuda", "the `name` of the cluster: it begins all subjects")
	f.StringVar(&c.creds, "creds", "", "a `file` with credentials")
	f.StringVar(&c.nkey, "nkey", "", "a `file` with the seed of an NKey")
	f.StringVar(&c.ca, "ca", "", "a `file` with the certificates that the server's is checked with")
	f.StringVar(&c.cert, "cert", "", "a `file` with a certificate for the server, with --key")
	f.StringVar(&c.key, "key", "", "a `file` with the key of --cert")
	f.StringVar(&c.inbox, "inbox", "", "a `prefix` of answers of its own, as the rights of the user say")
}

func (c *connection) dial(ctx context.Context) (*nats.Conn, error) {
	options := append(cluster.ConnectOptions(), nats.Name("purecuda-cluster"))
	for _, o := range []struct {
		set    bool
		option func() (nats.Option, error)
	}{
		{os.Getenv(tokenVariable) != "", func() (nats.Option, error) { return nats.Token(os.Getenv(tokenVariable)), nil }},
		{c.creds != "", func() (nats.Option, error) { return nats.UserCredentials(c.creds), nil }},
		{c.nkey != "", func() (nats.Option, error) { return nats.NkeyOptionFromSeed(c.nkey) }},
		{c.ca != "", func() (nats.Option, error) { return nats.RootCAs(c.ca), nil }},
		{c.cert != "" || c.key != "", func() (nats.Option, error) { return nats.ClientCert(c.cert, c.key), nil }},
		{c.inbox != "", func() (nats.Option, error) { return nats.CustomInboxPrefix(c.inbox), nil }},
	} {
		if o.set {
			option, err := o.option()
			if err != nil {
				return nil, err
			}
			options = append(options, option)
		}
	}
	for said := false; ; { // a server may start later than its workers
		nc, err := nats.Connect(c.url, options...)
		if err == nil {
			return nc, nil
		}
		if strings.Contains(strings.ToLower(err.Error()), "authorization") || ctx.Err() != nil {
			return nil, fmt.Errorf("connecting to %s: %w", c.servers(), err)
		}
		if !said {
			said = true
			fmt.Fprintf(os.Stderr, "waiting for a server at %s: %v\n", c.servers(), err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connecting to %s: %w", c.servers(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// servers are the URLs without passwords.
func (c *connection) servers() string {
	all := strings.Split(c.url, ",")
	for i, text := range all {
		if u, err := url.Parse(text); err == nil {
			all[i] = u.Redacted()
		}
	}
	return strings.Join(all, ",")
}

// roots are folders and their names in references.
type roots map[string]string

func (r roots) String() string { return "" }

func (r roots) Set(text string) error {
	name, folder, ok := strings.Cut(text, "=")
	if !ok || name == "" || folder == "" {
		return fmt.Errorf("want NAME=DIR")
	}
	folder, err := filepath.Abs(folder)
	r[name] = folder
	return err
}

func (r roots) options() (all []cluster.Option) {
	for name, folder := range r {
		all = append(all, cluster.WithRoot(name, folder))
	}
	return all
}
