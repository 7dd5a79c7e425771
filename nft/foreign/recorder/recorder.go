// Package recorder knows the rules of kube-vmap for package simulate: which tables are ours, and
// which picks are repeated. It turns the events of a simulated packet into steps, the Service, and the
// reasons of our rules.
package recorder

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A Recorder implements [simulate.Own]. It looks up more in the rules that are simulated.
type Recorder struct{ Rules simulate.Rules }

// Has implements [simulate.Own].
func (Recorder) Has(t simulate.Table) bool { return t.Name == nft.TableName() && t.Family != "inet" }

// Slots implements [simulate.Own].
func (Recorder) Slots(c simulate.Chain) string {
	id := nft.ChainNamed(model.IPv4, c.Name) // names are the same in both families
	if id.Kind != nft.ChainStickyPick && id.Kind != nft.ChainStickyFull {
		return ""
	}
	return nft.SetID{Kind: nft.SetStickyNumbers, Local: id.Local}.Name()
}

// Note implements [simulate.Own].
func (r Recorder) Note(p simulate.Packet, events []simulate.Event) (simulate.Notes, error) {
	n := notes{Recorder: r, packet: p}
	for i := range events {
		e := &events[i]
		if !e.Own {
			n.addForeign(e)
			continue
		}
		if err := n.add(e, nft.ChainNamed(p.Family(), e.Chain)); err != nil {
			return simulate.Notes{}, err
		}
	}
	return n.Notes, nil
}

type notes struct {
	simulate.Notes
	Recorder
	packet    simulate.Packet
	picked    bool // an endpoint, at random or by a hash
	lastSet   nft.SetKind
	requested string // why nat-postrouting masquerades, if not because of the mark
}

// addForeign notes what happens in tables of other programs, and without a table.
func (n *notes) addForeign(e *simulate.Event) {
	switch e.Kind {
	case path.StepMasquerade, path.StepSource:
		if a, _ := netip.ParseAddrPort(e.To); e.Kind == path.StepMasquerade || a.Addr() != n.packet.From {
			n.Why = path.RuleRef{Table: e.Table, Chain: e.Chain, Rule: e.Rule}.String()
		}
	case path.StepDestination, path.StepReject, path.StepDrop, path.StepFlowtable, path.StepTranslateBack,
		path.StepUnreachable:
	default:
		return
	}
	n.Steps = append(n.Steps, e.Step)
}

// note notes an event as a step of another kind and with another text.
func (n *notes) note(e *simulate.Event, c nft.ChainID, kind, text string) {
	s := e.Step
	s.Kind, s.Means, s.Text = kind, string(c.Means()), text
	n.Steps = append(n.Steps, s)
}

// because puts the reason before its consequence.
func because(why, text string) string { return strings.TrimPrefix(why+": "+text, ": ") }

func (n *notes) add(e *simulate.Event, c nft.ChainID) error {
	text := e.Text
	switch e.Kind {
	case simulate.EventAdd:
		return n.addAffinity(e, c)
	case simulate.EventEmpty:
		n.addFault(e, c, "chain "+e.Chain+" has no rules")
		return nil
	case path.StepLookup:
		if n.lookup(e); e.Element.Verdict == nil || e.Element.Verdict.Chain == "" {
			return nil
		}
	case path.StepMiss:
		n.miss(e, c)
		return nil
	case simulate.EventNoMatch:
		if c.Kind == nft.ChainCluster {
			n.Why = e.Why
			n.note(e, c, path.StepKeep, because(e.Why, "it keeps its address"))
		}
		return nil
	case path.StepJump:
		if !n.jump(e, c) {
			return nil
		}
	case path.StepMark:
		text = n.mark(e, c)
	case simulate.EventRewrite:
		n.rewrite(e, c)
		return nil
	case path.StepPick:
		n.picked = true
	case path.StepMasquerade:
		if n.lastSet == nft.SetHairpin {
			n.Why = "a pod reaches itself"
		}
		if e.Why == "" {
			text = because(cmp.Or(n.requested, "it is marked"), e.Text)
		}
	case path.StepReject, path.StepDrop:
		n.stop(e, c)
	}
	n.note(e, c, e.Kind, text)
	return nil
}

func (n *notes) addFault(e *simulate.Event, c nft.ChainID, text string) {
	if !slices.Contains(n.Faults, text) {
		n.Faults = append(n.Faults, text)
		n.note(e, c, path.StepFault, text)
	}
}

// lookup notes an element; the ones of verdict maps show the destination of the packet.
func (n *notes) lookup(e *simulate.Event) {
	id, known := nft.SetNamed(n.packet.Family(), e.Set.Name)
	if known {
		n.lastSet = id.Kind
	}
	if e.Element.Verdict == nil {
		return
	}
	n.Service = cmp.Or(e.Element.Comment, n.Service)
	switch {
	case known && (id.Kind == nft.SetServices || id.Kind == nft.SetNodePorts):
		n.Kind = frontendKind(e.Element.Verdict.Chain)
	case id.Kind == nft.SetNoEndpointNodePorts:
		n.Kind = model.KindNodePort.String()
	}
}

func frontendKind(chain string) string {
	switch id := nft.ChainNamed(model.IPv4, chain); {
	case id.NodePort:
		return model.KindNodePort.String()
	case id.Kind == nft.ChainExternal, id.Kind == nft.ChainExternalLocal, id.Kind == nft.ChainService:
		return "External"
	}
	return model.KindClusterIP.String()
}

// miss notes that a set does not have a key, if that is of interest.
func (n *notes) miss(e *simulate.Event, c nft.ChainID) {
	id, known := nft.SetNamed(n.packet.Family(), e.Set.Name)
	switch {
	case !known:
	case id.Kind == nft.SetServices || id.Kind == nft.SetNodePorts || id.Kind == nft.SetLocalServices ||
		id.Kind == nft.SetLocalNodePorts:
		n.note(e, c, path.StepMiss, e.Why)
	case id.Kind == nft.SetStickyEndpoints && !n.picked: // of a removed endpoint
	case id.Kind == nft.SetStickyNumbers: // of a slot that is free: another one is picked
	case id.Kind >= nft.SetEndpoints && id.Kind < nft.SetAffinity,
		id.Kind == nft.SetServiceIPs || id.Kind == nft.SetNodePortServiceIPs || id.Kind == nft.SetNodePortServicePorts:
		n.addFault(e, c, e.Why)
	}
}

// jump reports whether a jump is of interest: it has a reason.
func (n *notes) jump(e *simulate.Event, c nft.ChainID) bool {
	isLabel := func(x any) bool { ct, ok := x.(*expr.Ct); return ok && ct.Key == expr.CtKeyLABELS }
	switch kind := nft.ChainNamed(c.Family, e.Target).Kind; {
	case kind == nft.ChainSourcePort: // noted there
		if n.requested = e.Why; slices.ContainsFunc(e.Expressions, isLabel) {
			n.requested = "its connection is labelled, and another program has overwritten the mark"
		}
		return false
	case e.Why == "" || kind == nft.ChainRestore:
		return false
	}
	if c.Kind == nft.ChainExternalLocal {
		n.Why = e.Why
	}
	return true
}

func (n *notes) mark(e *simulate.Event, c nft.ChainID) string {
	why := e.Why
	switch {
	case c.Kind == nft.ChainMasquerade:
		why = "everything is masqueraded (masqueradeAll)"
	case why == "" && (c.Kind == nft.ChainExternal || c.Kind == nft.ChainExternalLocal):
		why = cmp.Or(n.Why, "an external address under Cluster policy")
	}
	n.Why = why
	return because(why, "marked for masquerade")
}

func (n *notes) rewrite(e *simulate.Event, c nft.ChainID) {
	if c.Kind == nft.ChainRestore {
		n.note(e, c, path.StepRestore, fmt.Sprintf("nothing was translated: the destination is %s again", e.Destination))
		return
	}
	text := because(e.Why, fmt.Sprintf("the destination becomes %s, the ClusterIP", e.Destination))
	n.note(e, c, path.StepClusterIP, text)
}

// addAffinity notes what the affinity map has for the client: the number of an endpoint, by which
// another map has it.
func (n *notes) addAffinity(e *simulate.Event, c nft.ChainID) error {
	id, known := nft.SetNamed(n.packet.Family(), e.Set.Name)
	if !known || id.Kind != nft.SetAffinity {
		return nil
	}
	if !e.Found {
		n.note(e, c, path.StepRemember, fmt.Sprintf("%s does not know the client: it is remembered from now on, for %s",
			e.Set.Name, e.Timeout))
		return nil
	}
	id.Kind = nft.SetStickyEndpoints
	length := n.packet.From.BitLen() / 8
	endpoint, found, err := n.find(id, slices.Concat(e.Key[length:], e.Element.Data))
	if err != nil {
		return err
	}
	a, ok := netip.AddrFromSlice(endpoint.Data[:min(len(endpoint.Data), length)])
	if !found || !ok || len(endpoint.Data) < length+2 {
		n.note(e, c, path.StepRemember,
			e.Set.Name+" has an endpoint for the client that is gone: the client gets another one")
		return nil
	}
	at := netip.AddrPortFrom(a, binary.BigEndian.Uint16(endpoint.Data[length:]))
	n.Affinity = &path.Affinity{Endpoint: at, ExpiresSeconds: int(e.Element.Expires / time.Second)}
	n.note(e, c, path.StepRemember, fmt.Sprintf("%s remembers that the client has %s, for %s", e.Set.Name, at,
		e.Element.Expires.Round(time.Second)))
	return nil
}

// stop notes why a rule of ours rejects or drops the packet.
func (n *notes) stop(e *simulate.Event, c nft.ChainID) {
	n.Reason, n.Fault = n.reason(e, c), ""
	if len(n.Faults) > 0 {
		n.Reason, n.Fault = path.ReasonFault, n.Faults[0]
	}
	n.NoEndpoint = slices.Contains([]string{path.ReasonNoEndpoint, path.ReasonNoLocalEndpoint, path.ReasonHeld}, n.Reason)
}

// reason returns the reason by the set in which the packet was last found.
func (n *notes) reason(e *simulate.Event, c nft.ChainID) string {
	if c.Kind == nft.ChainHold {
		return path.ReasonHeld
	}
	switch n.lastSet {
	case nft.SetRestricted, nft.SetRestrictedNodePorts:
		return path.ReasonSourceRanges
	case nft.SetDeniedSources:
		return path.ReasonDenied
	case nft.SetNoEndpointServices, nft.SetNoEndpointNodePorts:
		if e.Kind == path.StepDrop {
			return path.ReasonNoLocalEndpoint
		}
		return path.ReasonNoEndpoint
	case nft.SetClusterIPs:
		if e.Destination != n.packet.To {
			return path.ReasonTranslated
		}
		return path.ReasonNoPort
	case nft.SetExternalIPs:
		return path.ReasonNoPort
	case nft.SetServiceCIDRs:
		return path.ReasonNoService
	case nft.SetEndpointIPs:
		return path.ReasonInvalid
	}
	return ""
}

// Identify finds the Service of the packet's destination if no walk has met it: because the packet was
// dropped before, or an element is missing.
func (r Recorder) Identify(result *simulate.Result) error {
	p := result.Packet
	port := binary.BigEndian.AppendUint16([]byte{byte(p.Protocol), 0, 0, 0}, p.To.Port())
	port = append(port, 0, 0)
	at := p.To.Addr().AsSlice()
	for _, kind := range []nft.SetKind{
		nft.SetServices, nft.SetNoEndpointServices, nft.SetNodeIPs, nft.SetNodePorts, nft.SetNoEndpointNodePorts,
	} {
		if result.Service != "" {
			break
		}
		key := port
		switch kind {
		case nft.SetServices, nft.SetNoEndpointServices:
			key = slices.Concat(at, port)
		case nft.SetNodeIPs:
			key = at
		}
		e, found, err := r.find(nft.SetID{Family: p.Family(), Kind: kind}, key)
		if err != nil || kind == nft.SetNodeIPs && !found {
			return err
		}
		if result.Service = e.Comment; e.Comment != "" && e.Verdict != nil && kind != nft.SetNoEndpointServices {
			result.Kind = frontendKind(e.Verdict.Chain)
		}
	}
	return nil
}

// find looks up a key in a set that may be missing, or have another type.
func (r Recorder) find(id nft.SetID, key []byte) (e simulate.Element, found bool, err error) {
	s, err := r.Rules.Set(simulate.Table{Family: nft.FamilyName(id.Family), Name: nft.TableName()}, id.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, false, nil
	case err != nil || int(s.KeyLen) != len(key):
		return e, false, err
	}
	return s.Find(key)
}
