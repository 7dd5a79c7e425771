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

	"kube-vmap/cmd/inspect/explain/reference"
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
	from, err := o.parseFrom()
	if err != nil {
		return p, err
	}
	p.From = from.Address
	if p.FromPort, err = from.SourcePort(); err != nil {
		return p, fmt.Errorf("--from: %w", err)
	}
	to, err := o.parseTo()
	if err != nil {
		return p, err
	}
	port, err := strconv.ParseUint(to.Port, 10, 16)
	if to.Kind != reference.KindAddress || err != nil || port == 0 {
		return p, fmt.Errorf("--to: %q is not an address with a port: write 10.96.0.10:53/udp, "+
			"[fd00::a]:53/udp or svc/NAME:PORT; kubectl get service shows both", o.To)
	}
	p.To, p.Protocol = netip.AddrPortFrom(to.Address, uint16(port)), model.TCP
	if to.HasProtocol {
		p.Protocol = to.Protocol
	}
	if model.FamilyOf(p.From) != p.Family() {
		return p, fmt.Errorf("--from and --to: %s is %s, %s is %s; they must be of one family",
			p.From, model.FamilyOf(p.From), p.To.Addr(), p.Family())
	}
	return p, nil
}

func (o Options) parseFrom() (reference.Reference, error) {
	return o.parse("--from", o.From, reference.KindAddress)
}

func (o Options) parseTo() (reference.Reference, error) {
	return o.parse("--to", o.To, reference.KindAddress, reference.KindService)
}

func (o Options) parse(flag, text string, known ...reference.Kind) (reference.Reference, error) {
	ref, err := reference.Parse(text, o.Namespace)
	if err == nil && !slices.Contains(known, ref.Kind) {
		err = fmt.Errorf("%q: a node knows the names of Services only, as the destination; kubectl vmap explain "+
			"knows pods and nodes, too", text)
	}
	if err != nil {
		return ref, fmt.Errorf("%s: %w", flag, err)
	}
	return ref, nil
}

func (o *Options) check() error {
	return cmp.Or(nodestatus.CheckObserve(o.Observe), nodestatus.CheckNamespace(o.Namespace),
		nodestatus.CheckNames(append([]string{o.From, o.To, o.Name}, o.Packets...)))
}

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

// resolve replaces the name of a Service in --to by its ClusterIP, of the client's family.
func (o *Options) resolve(ctx context.Context, ask nodestatus.Source) error {
	if o.From == "" || o.To == "" {
		return nil // an error of Packet
	}
	from, err := o.parseFrom()
	if err != nil {
		return err
	}
	to, err := o.parseTo()
	if err != nil || to.Kind != reference.KindService {
		return err
	}
	d, err := ask(ctx, nodestatus.Query{Namespace: to.Namespace, Name: to.Name, Brief: true})
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return fmt.Errorf("--to: %w; without it, only addresses are known: write 10.96.0.10:53/udp", err)
	case err != nil:
		return fmt.Errorf("--to: %w", err)
	}
	if o.To, err = find(to, d, model.FamilyOf(from.Address)); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}

func find(r reference.Reference, d *nodestatus.Document, f model.Family) (string, error) {
	if len(d.Services) == 0 {
		return "", fmt.Errorf("kube-vmap serves no Service %s/%s: it may not exist, be headless, or be left to another "+
			"proxy", r.Namespace, r.Name)
	}
	var found, matching, others []string
	for i := range d.Services[0].Ports {
		p := &d.Services[0].Ports[i]
		for k := range p.Frontends {
			e := &p.Frontends[k]
			if p.Family != f.String() || e.Kind != model.KindClusterIP.String() {
				continue
			}
			if others = append(others, portText(p, e)); matches(r, p, e) {
				found, matching = append(found, e.At(p.Protocol)), append(matching, portText(p, e))
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(others) == 0:
		return "", fmt.Errorf("no %s port of Service %s/%s, as the client's, is programmed; "+
			"kube-vmap problems -n %[2]s %[3]s shows why", f, r.Namespace, r.Name)
	case len(found) == 0:
		return "", fmt.Errorf("no port %q of Service %s/%s; it has %s", r.Port, r.Namespace, r.Name,
			strings.Join(others, ", "))
	}
	return "", fmt.Errorf("several such ports of Service %s/%s: choose one of %s", r.Namespace, r.Name,
		strings.Join(matching, ", "))
}

func matches(r reference.Reference, p *nodestatus.Port, f *nodestatus.Frontend) bool {
	return (r.Port == "" || r.Port == p.Name || r.Port == strconv.Itoa(int(f.Port))) &&
		(!r.HasProtocol || strings.EqualFold(r.Protocol.String(), p.Protocol))
}

// portText returns a port as --to takes it, with its name: ":80/tcp (http)".
func portText(p *nodestatus.Port, f *nodestatus.Frontend) string {
	text := ":" + strconv.Itoa(int(f.Port)) + "/" + strings.ToLower(p.Protocol)
	if p.Name != "" {
		text += " (" + p.Name + ")"
	}
	return text
}
