package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
)

// Options are the flags of the command.
type Options struct {
	From, To  string
	Interface string // on which the packet arrives
	Output    string // text, json, yaml
	// Namespace is of a Service that To or Name names.
	Namespace string
	// Packets are "FROM,TO" each, instead of From and To; Name is the Service that they are for.
	Packets []string
	Name    string
	// Observe is how long to observe whether endpoints respond.
	Observe time.Duration
	// Probe asks endpoints by a connect.
	Probe bool
}

// Packet returns the packet of the options.
func (o Options) Packet() (p simulate.Packet, err error) {
	if o.From == "" || o.To == "" {
		return p, errors.New("--from and --to: both must be given, for instance --from 10.244.1.7 --to 10.96.0.10:53/udp")
	}
	if p.From, p.FromPort, err = parseFrom(o.From); err != nil {
		return p, fmt.Errorf("--from: %w", err)
	}
	if p.To, p.Protocol, err = parseTo(o.To); err != nil {
		return p, fmt.Errorf("--to: %w", err)
	}
	if model.FamilyOf(p.From) != p.Family() {
		return p, fmt.Errorf("--from and --to: %s is %s, %s is %s; they must be of one family",
			p.From, model.FamilyOf(p.From), p.To.Addr(), p.Family())
	}
	return p, nil
}

// check returns an error about values that are not accepted.
func (o *Options) check() error {
	return cmp.Or(nodestatus.CheckObserve(o.Observe), nodestatus.CheckNamespace(o.Namespace),
		nodestatus.CheckNames(append([]string{o.From, o.To, o.Name}, o.Packets...)))
}

// packets returns the packets of the arguments.
func (o Options) packets() (list []simulate.Packet, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	for _, text := range o.Packets {
		var whole bool
		if o.From, o.To, whole = strings.Cut(text, ","); !whole {
			return nil, fmt.Errorf("unknown argument %.100q: write packets as FROM,TO, or give --from and --to", text)
		}
		p, err := o.Packet()
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// parseFrom reads "10.244.1.7", "10.244.1.7:40000", "fd00::7", "[fd00::7]:40000".
func parseFrom(text string) (netip.Addr, uint16, error) {
	a, err := netip.ParseAddrPort(text)
	if alone, e := netip.ParseAddr(strings.Trim(text, "[]")); e == nil {
		a, err = netip.AddrPortFrom(alone, 0), nil
	}
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("%q is not an address: write 10.244.1.7, 10.244.1.7:40000 or [fd00::7]:40000; "+
			"kubectl get pod -o wide shows that of a pod", text)
	}
	from, err := plain(a.Addr())
	return from, a.Port(), err
}

func plain(a netip.Addr) (netip.Addr, error) {
	a = a.Unmap()
	switch {
	case a.Zone() != "":
		return a, fmt.Errorf("%s is a link-local address, which no Service has", a)
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return a, fmt.Errorf("%s is an address of a group, which no Service has", a)
	}
	return a, nil
}

// parseTo reads "10.96.0.10:53/udp" and "[fd00::a]:53/udp"; without a protocol it is TCP.
func parseTo(text string) (to netip.AddrPort, p model.Protocol, err error) {
	where, protocol, named := strings.Cut(text, "/")
	if p = model.TCP; named {
		if p, err = model.ParseProtocol(protocol); err != nil {
			return to, p, err
		}
	}
	if to, err = netip.ParseAddrPort(where); err != nil || to.Port() == 0 {
		return to, p, fmt.Errorf("%q is not an address with a port: write 10.96.0.10:53/udp, "+
			"[fd00::a]:53/udp or svc/NAME:PORT; kubectl get service shows both", text)
	}
	a, err := plain(to.Addr())
	return netip.AddrPortFrom(a, to.Port()), p, err
}

// A serviceRef is a Service port as --to names it: svc/[NAMESPACE/]NAME[:PORT][/PROTOCOL].
type serviceRef struct {
	namespace, name string
	port            string // its name or number; empty for the only one
	protocol        string // empty for the only one
}

var servicePrefixes = []string{"svc", "service", "services"}

func parseServiceRef(text, namespace string) (serviceRef, error) {
	r := serviceRef{namespace: namespace}
	parts := strings.Split(text, "/")[1:]
	if last := len(parts) - 1; last > 0 {
		if _, err := model.ParseProtocol(parts[last]); err == nil {
			r.protocol, parts = parts[last], parts[:last]
		}
	}
	if len(parts) == 2 {
		r.namespace, parts = parts[0], parts[1:]
	}
	r.name, r.port, _ = strings.Cut(parts[0], ":")
	if len(parts) != 1 || r.name == "" {
		return r, fmt.Errorf("%q: write svc/NAME:PORT or svc/NAMESPACE/NAME:PORT", text)
	}
	return r, nil
}

// resolve replaces the name of a Service in --to by its ClusterIP, of the client's family.
func (o *Options) resolve(ctx context.Context, ask nodestatus.Source) error {
	kind, _, named := strings.Cut(o.To, "/")
	isService := named && slices.Contains(servicePrefixes, kind)
	for flag, text := range map[string]string{"--from": o.From, "--to": o.To} {
		kind, _, named := strings.Cut(text, "/")
		if named && !strings.ContainsAny(kind, ".:") && (flag == "--from" || !isService) {
			return fmt.Errorf("%s: %q: a node knows the names of Services only, as the destination; kubectl vmap explain "+
				"knows those of pods and nodes, too", flag, text)
		}
	}
	if !isService {
		return nil
	}
	r, err := parseServiceRef(o.To, o.Namespace)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	from, _, err := parseFrom(o.From)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	d, err := ask(ctx, nodestatus.Query{Namespace: r.namespace, Name: r.name, Brief: true})
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return fmt.Errorf("--to: %w; without it, only addresses are known: write 10.96.0.10:53/udp", err)
	case err != nil:
		return fmt.Errorf("--to: %w", err)
	}
	o.To, err = r.find(d, model.FamilyOf(from))
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}

func (r serviceRef) find(d *nodestatus.Document, f model.Family) (string, error) {
	if len(d.Services) == 0 {
		return "", fmt.Errorf("kube-vmap serves no Service %s/%s: it may not exist, be headless, or be left to another "+
			"proxy", r.namespace, r.name)
	}
	var found, matching, others []string
	for i := range d.Services[0].Ports {
		p := &d.Services[0].Ports[i]
		for k := range p.Frontends {
			e := &p.Frontends[k]
			if p.Family != f.String() || e.Kind != model.KindClusterIP.String() {
				continue
			}
			if others = append(others, portText(p, e)); r.matches(p, e) {
				found, matching = append(found, e.At(p.Protocol)), append(matching, portText(p, e))
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(others) == 0:
		return "", fmt.Errorf("no %s port of Service %s/%s, as the client's, is programmed; "+
			"kube-vmap problems -n %[2]s %[3]s shows why", f, r.namespace, r.name)
	case len(found) == 0:
		return "", fmt.Errorf("no port %q of Service %s/%s; it has %s", r.port, r.namespace, r.name,
			strings.Join(others, ", "))
	}
	return "", fmt.Errorf("several such ports of Service %s/%s: choose one of %s", r.namespace, r.name,
		strings.Join(matching, ", "))
}

func (r serviceRef) matches(p *nodestatus.Port, f *nodestatus.Frontend) bool {
	return (r.port == "" || r.port == p.Name || r.port == strconv.Itoa(int(f.Port))) &&
		(r.protocol == "" || strings.EqualFold(r.protocol, p.Protocol))
}

// portText returns a port as --to takes it, with its name: ":80/tcp (http)".
func portText(p *nodestatus.Port, f *nodestatus.Frontend) string {
	text := ":" + strconv.Itoa(int(f.Port)) + "/" + strings.ToLower(p.Protocol)
	if p.Name != "" {
		text += " (" + p.Name + ")"
	}
	return text
}
