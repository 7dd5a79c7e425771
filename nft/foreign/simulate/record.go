package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate/path"
)

// A record is what a walk has noted so far.
type record struct {
	hook  Hook
	back  bool // the packet is the endpoint's reply
	later bool // it is what the client sends then, of which no steps are noted
	steps []path.Step
	// service is the comment of the element that the packet met, kind the kind of its
	// destination address.
	service, kind string
	metService    bool // an element that leads to endpoints
	picked        bool // an endpoint, at random or by a hash
	verdict       Verdict
	how           string       // how it was refused
	by            path.RuleRef // the rule or policy that refused or dropped it
	lastSet       nft.SetKind
	because       Because
	why           string // why it was marked for masquerade, or not
	requested     string // why nat-postrouting masquerades it, if not because it is marked
	masquerade    bool
	affinity      *Affinity
	faults        []string
	doubts        []Doubt
}

func (w *walk) note(kind, text string) {
	if w.record.later {
		return
	}
	w.record.steps = append(w.record.steps, path.Step{
		Hook: string(w.record.hook), Table: w.position.chain.Table.String(), Chain: w.position.chain.Name,
		Rule: w.position.rule.Handle, Back: w.record.back, Kind: kind, Means: string(w.position.id.Means()), Text: text,
	})
}

// noteNode adds a step of the node that is not in a table.
func (w *walk) noteNode(kind, text string) {
	if w.record.later {
		return
	}
	w.record.steps = append(w.record.steps, path.Step{
		Hook: string(w.record.hook), Back: w.record.back, Kind: kind,
		Text: text,
	})
}

func (w *walk) noteOurs(kind, text string) {
	if w.position.isOurs() {
		w.note(kind, text)
	}
}

func (w *walk) addFault(text string) {
	if !slices.Contains(w.record.faults, text) {
		w.record.faults = append(w.record.faults, text)
		w.note(StepFault, text)
	}
}

func (w *walk) doubt(c undecidedError) Doubt {
	return Doubt{w.position.base.Chain, w.position.ref(), string(c)}
}

// addDoubt notes that the effect of a rule is not known, once for each base chain.
func (w *walk) addDoubt(c undecidedError) { w.record.doubts = addDoubt(w.record.doubts, w.doubt(c)) }

// addNodeDoubt notes that something of the node may decide otherwise.
func (w *walk) addNodeDoubt(why string) { w.record.doubts = addDoubt(w.record.doubts, Doubt{Why: why}) }

// noteUnknown makes an error that something is undecided the verdict, with a doubt.
func (w *walk) noteUnknown(err error) error {
	var undecided undecidedError
	if !errors.As(err, &undecided) {
		return err
	}
	w.record.verdict, w.record.how = VerdictUnknown, err.Error()
	w.addNodeDoubt(string(undecided))
	return nil
}

// inChain reports whether the packet is in a chain of ours of one of the kinds.
func (w *walk) inChain(kinds ...nft.ChainKind) bool {
	return w.position.isOurs() && slices.Contains(kinds, w.position.id.Kind)
}

func (w *walk) noteLookup(set *Set, key []byte, e Element, found bool) {
	ours := w.position.isOurs()
	text := valueText(set.KeyType, key)
	if !ours {
		w.reason = reason{text: foreignLookupText(set, text, found)}
		return
	}
	if set.Anonymous {
		return
	}
	id, known := nft.SetNamed(w.packet.Family(), set.Name)
	if known && found {
		w.record.lastSet = id.Kind
	}
	switch {
	case !found:
		w.noteMiss(set, text, id, known)
	case e.Verdict != nil:
		w.noteDispatch(set, text, e, id, known)
	default:
		w.reason = reason{text: fmt.Sprintf("%s has %s", set.Name, text)}
	}
}

// foreignLookupText returns the result of a lookup by another program's rule. Anonymous
// sets have no name to print.
func foreignLookupText(set *Set, key string, found bool) string {
	what, has := "set", "has"
	if set.IsMap {
		what = "map"
	}
	if !found {
		has = "does not have"
	}
	if set.Anonymous {
		return fmt.Sprintf("the rule's own %s %s %s", what, has, key)
	}
	return fmt.Sprintf("%s %s %s %s", what, set.Name, has, key)
}

// noteDispatch notes an element of a verdict map, which shows the destination of the
// packet.
func (w *walk) noteDispatch(set *Set, key string, e Element, id nft.SetID, known bool) {
	name := ""
	if e.Comment != "" {
		name = " (" + e.Comment + ")"
		w.record.service = e.Comment
	}
	switch {
	case known && (id.Kind == nft.SetServices || id.Kind == nft.SetNodePorts):
		w.record.metService, w.record.kind = true, frontendKind(w.packet.Family(), e.Verdict.Chain)
	case id.Kind == nft.SetNoEndpointNodePorts:
		w.record.kind = model.KindNodePort.String()
	}
	w.reason = reason{text: fmt.Sprintf("%s has %s%s", set.Name, key, name)}
	if e.Verdict.Kind == expr.VerdictGoto || e.Verdict.Kind == expr.VerdictJump {
		w.note(StepLookup, w.reason.prefix("goto "+e.Verdict.Chain))
	}
}

// frontendKind returns the kind of an address by the chain it leads to.
func frontendKind(f model.Family, chain string) string {
	switch id := nft.ChainNamed(f, chain); {
	case id.NodePort:
		return model.KindNodePort.String()
	case id.Kind == nft.ChainExternal, id.Kind == nft.ChainExternalLocal, id.Kind == nft.ChainService:
		return "External"
	}
	return model.KindClusterIP.String()
}

// noteMiss notes that a set does not have a key, if that is of interest.
func (w *walk) noteMiss(set *Set, key string, id nft.SetID, known bool) {
	text := set.Name + " does not have " + key
	w.reason = reason{text: text}
	switch {
	case !known:
	case id.Kind == nft.SetServices || id.Kind == nft.SetNodePorts || id.Kind == nft.SetLocalServices ||
		id.Kind == nft.SetLocalNodePorts:
		w.note(StepMiss, text)
	case id.Kind == nft.SetStickyEndpoints && !w.record.picked: // of an endpoint that is gone
	case id.Kind == nft.SetStickyNumbers: // of a slot that is free: another one is picked
	case id.Kind >= nft.SetEndpoints && id.Kind < nft.SetAffinity,
		id.Kind == nft.SetServiceIPs || id.Kind == nft.SetNodePortServiceIPs || id.Kind == nft.SetNodePortServicePorts:
		w.addFault(text)
	}
}

// noteNoMatch notes why a rule did not match, if that decides something.
func (w *walk) noteNoMatch() {
	if w.inChain(nft.ChainCluster) && w.reason.text != "" {
		w.record.why = w.reason.text
		w.note(StepKeep, w.reason.prefix("it keeps its address"))
	}
}

// noteJump notes that a rule with a reason sends the packet to another chain.
func (w *walk) noteJump(e any, v verdict) {
	_, direct := e.(*expr.Verdict)
	away := v.kind == expr.VerdictGoto || v.kind == expr.VerdictJump
	if !direct || !away || w.reason.text == "" || !w.position.isOurs() {
		return
	}
	switch nft.ChainNamed(w.frame.family, v.chain).Kind {
	case nft.ChainRestore:
		return
	case nft.ChainSourcePort:
		w.record.requested = w.reason.text // noted there
		return
	}
	if w.inChain(nft.ChainExternalLocal) {
		w.record.why = w.reason.text
	}
	w.note(StepJump, w.reason.prefix("goto "+v.chain))
}

func (w *walk) setMark(mark uint32) {
	fresh := mark&^w.frame.mark != 0
	w.frame.mark = mark
	if !fresh || !w.position.isOurs() {
		return
	}
	if w.reason.text == "" && w.inChain(nft.ChainExternal, nft.ChainExternalLocal) {
		w.reason.text = cmp.Or(w.record.why, "an external address under Cluster policy")
	}
	w.record.why = w.reason.text
	if w.inChain(nft.ChainMasquerade) {
		w.record.why = "everything is masqueraded (masqueradeAll)"
		w.reason.text = w.record.why
	}
	w.note(StepMark, w.reason.prefix("marked for masquerade"))
}

func (w *walk) noteNewDestination(before netip.AddrPort) {
	after := w.frame.destination()
	switch {
	case after == before:
	case w.inChain(nft.ChainRestore):
		w.note(StepRestore, "nothing was translated: the destination is "+after.String()+" again")
	default:
		w.noteOurs(StepClusterIP, w.reason.prefix("the destination becomes "+after.String()+", the ClusterIP"))
	}
}

func (w *walk) notePick(n uint32, how string) {
	w.record.picked = w.record.picked || w.position.isOurs()
	w.noteOurs(StepPick, fmt.Sprintf("picks one of %d %s", n, how))
}

// noteAffinity notes what the affinity map has for the client: the number of an endpoint,
// by which another map has it.
func (w *walk) noteAffinity(set *Set, key []byte, e Element, found bool, timeout time.Duration) error {
	id, known := nft.SetNamed(w.frame.family, set.Name)
	if !w.position.isOurs() || !known || id.Kind != nft.SetAffinity {
		return nil
	}
	if !found {
		w.note(StepRemember, fmt.Sprintf("%s does not know the client: it is remembered from now on, for %s", set.Name,
			timeout))
		return nil
	}
	id.Kind = nft.SetStickyEndpoints
	endpoints, err := w.set(w.position.chain.Table, id.Name())
	if err != nil {
		return err
	}
	number := slices.Concat(key[addressFields[w.frame.family].length:], e.Data)
	endpoint, found, err := w.element(w.position.chain.Table, endpoints, number)
	if err != nil {
		return err
	}
	if !found {
		w.note(StepRemember, set.Name+" has an endpoint for the client that is gone: the client gets another one")
		return nil
	}
	at := decodeAddrPort(w.frame.family, endpoint.Data)
	w.record.affinity = &Affinity{Endpoint: at, Expires: e.Expires}
	w.note(StepRemember, fmt.Sprintf("%s remembers that the client has %s, for %s", set.Name, at,
		e.Expires.Round(time.Second)))
	return nil
}

func (w *walk) translate(source bool, to netip.AddrPort) {
	kind, side := StepDestination, "goes to "
	if source {
		kind, side = StepSource, "the source becomes "
	}
	w.noteAddress(kind, side, to.String())
	w.setTranslation(source, to)
}

func (w *walk) noteAddress(kind, side, to string) {
	if w.note(kind, w.reason.prefix(side+to)); !w.record.later {
		w.record.steps[len(w.record.steps)-1].To = to
	}
}

func (w *walk) applyMasquerade(as netip.Addr) {
	why := cmp.Or(w.reason.text, w.record.requested)
	switch {
	case !w.position.isOurs():
		w.record.why = w.position.String()
	case w.record.lastSet == nft.SetHairpin:
		w.record.why = "a pod reaches itself"
	case why == "":
		why = "it is marked"
	}
	w.record.masquerade = true
	w.reason.text = why
	w.noteAddress(StepMasquerade, "masquerade, the source becomes ", as.String())
	w.setTranslation(true, netip.AddrPortFrom(as, 0))
}

func (w *walk) noteRefused(how string) {
	w.record.how, w.record.verdict = how, VerdictRefused
	w.note(StepReject, w.reason.prefix("rejected with "+how))
}

func (w *walk) noteDropped() {
	if w.record.verdict != VerdictRefused {
		w.record.verdict = VerdictDropped
		w.note(StepDrop, w.reason.prefix("dropped"))
	}
	w.record.by = w.position.ref()
	switch {
	case !w.position.isOurs():
		w.record.by.Text = w.position.rule.Text(w.position.chain.Table.Family)
	case len(w.record.faults) > 0:
		w.record.because = Because{ReasonFault, w.record.faults[0]}
	default:
		w.record.because.Reason = verdictReason(w.record.lastSet, w.record.verdict)
		if w.position.id.Kind == nft.ChainHold {
			w.record.because.Reason = ReasonHeld
		}
		if w.record.because.Reason == ReasonNoPort && w.frame.destination() != w.packet.To {
			w.record.because.Reason = ReasonTranslated
		}
	}
}

func (w *walk) noteUnreachable(err error) {
	w.position = position{}
	w.record.verdict, w.record.how = VerdictUnreachable, err.Error()
	w.record.steps = append(w.record.steps, path.Step{
		Hook: "routing", Back: w.record.back, Kind: StepUnreachable,
		Text: err.Error(),
	})
}
