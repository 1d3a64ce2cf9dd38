package cluster

import (
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// Permissions are the subjects that a user of the server may use. Their String is for a configuration of the server:
//
//	users = [ { nkey: U..., permissions: <String> } ]
type Permissions struct{ Publish, Subscribe []string }

// String is the permissions as the server reads them.
func (p Permissions) String() string {
	list := func(subjects []string) string { return `["` + strings.Join(subjects, `", "`) + `"]` }
	return fmt.Sprintf("{ publish: %s, subscribe: %s }", list(p.Publish), list(p.Subscribe))
}

// HostPermissions are what [Serve] needs, and no more. name is from [WithName], host from [WithHostName], and inbox the prefix of
// nats.CustomInboxPrefix: with one of its own a host does not see the answers to others. A user with these rights can give results
// of these functions and in the name of this host only, so that [WithVerify] holds against it. "*" is any host: such users
// can answer for each other. The rights to the object store are for data above the server's payload.
func HostPermissions(name, host, inbox string, functions ...string) (Permissions, error) {
	n := names(name)
	if err := checkPermissions(name, inbox); err != nil {
		return Permissions{}, err
	}
	if host != "*" {
		if err := checkToken("name of the host", host); err != nil {
			return Permissions{}, err
		}
	}
	p := Permissions{
		Publish:   []string{n.subject("health", host, "*")},
		Subscribe: []string{n.subject("host", host, "*"), n.cancel(), n.ask(), inbox + ".>"},
	}
	for _, f := range functions {
		token, err := functionToken(f)
		if err != nil {
			return Permissions{}, err
		}
		p.Publish = append(p.Publish, n.subject("result", token, host, ">"), n.subject("begin", token, host, ">"),
			"$JS.API.CONSUMER.MSG.NEXT."+n.workStream()+"."+token, "$JS.ACK."+n.workStream()+"."+token+".>")
	}
	p.Publish = append(p.Publish, objectPermissions(n, "INFO", "PURGE", "MSG.GET")...)
	return p, nil
}

// CallerPermissions are what [Open] and calls need, with the right to make and change the streams.
func CallerPermissions(name, inbox string) (Permissions, error) {
	n := names(name)
	if err := checkPermissions(name, inbox); err != nil {
		return Permissions{}, err
	}
	p := Permissions{
		Publish: []string{n.subject("work", ">"), n.subject("host", "*", "*"), n.cancel(), n.ask(),
			"$JS.API.CONSUMER.INFO." + n.workStream() + ".*", "$JS.API.CONSUMER.CREATE." + n.workStream() + ".>"},
		Subscribe: []string{n.subject("result", ">"), n.subject("begin", ">"), n.subject("health", ">"), inbox + ".>"},
	}
	for _, stream := range []string{n.workStream(), n.resultStream()} {
		for _, what := range []string{"INFO", "CREATE", "UPDATE", "PURGE", "MSG.GET"} {
			p.Publish = append(p.Publish, "$JS.API.STREAM."+what+"."+stream)
		}
	}
	p.Publish = append(p.Publish, objectPermissions(n, "INFO", "CREATE", "PURGE", "MSG.GET")...)
	return p, nil
}

// objectPermissions are for the object store.
func objectPermissions(n names, of ...string) []string {
	stream := "OBJ_" + n.bucket()
	all := []string{"$O." + n.bucket() + ".>", "$JS.API.DIRECT.GET." + stream + ".>", "$JS.API.CONSUMER.CREATE." + stream + ".>",
		"$JS.API.CONSUMER.DELETE." + stream + ".*", "$JS.FC." + stream + ".>"}
	for _, what := range of {
		all = append(all, "$JS.API.STREAM."+what+"."+stream)
	}
	return all
}

func checkPermissions(name, inbox string) error {
	for _, token := range strings.Split(inbox, ".") {
		if err := checkToken("prefix of an inbox", token); err != nil {
			return driver.Errorf(driver.ErrInvalidArgument, "the prefix of an inbox %.40q: want names with dots between", inbox)
		}
	}
	return checkToken("name of the cluster", name)
}
