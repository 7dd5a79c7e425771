package simulate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/nft"
)

// A record is what a walk has noted so far.
type record struct {
	hook  Hook
	back  bool // the packet is the endpoint's reply
	steps []Step
	// service is the comment of the element that the packet met, kind the kind of its
	// destination address.
	service, kind string
	metService    bool // an element that leads to endpoints
	picked        bool // an endpoint, at random or by a hash
	verdict       Verdict
	how           string   // how it was refused
	by            *RuleRef // the rule or policy that refused or dropped it
	lastSet       nft.SetKind
	because       string
	why           string // why it was marked for masquerade, or not
	requested     string // why nat-postrouting masquerades it, if not because it is marked
	masquerade    bool
	affinity      *Affinity
	remembered    time.Duration // for which a rule has added the client to a set
	faults        []string
	doubts        []string
}

// note adds a step.
func (w *walk) note(text string) {
	if w.brief {
		return
	}
	w.record.steps = append(w.record.steps, Step{
		Hook: w.record.hook.String(), Table: w.position.chain.Table.String(), Chain: w.position.chain.Name,
		Rule: w.position.handle, Back: w.record.back, Text: text,
	})
}

// noteNode adds a step of the node that is not in a table.
func (w *walk) noteNode(text string) {
	w.record.steps = append(w.record.steps, Step{Hook: w.record.hook.String(), Back: w.record.back, Text: text})
}

// noteOurs adds a step if it is in a table of ours.
func (w *walk) noteOurs(text string) {
	if w.position.isOurs() {
		w.note(text)
	}
}

// addFault notes that a table of ours is not as it was written.
func (w *walk) addFault(text string) {
	if !slices.Contains(w.record.faults, text) {
		w.record.faults = append(w.record.faults, text)
		w.note(text)
	}
}

// doubtVerb is between the base chain of a doubt and the rule.
const doubtVerb = ", may decide otherwise: "

// doubt returns the text of a doubt about the rule.
func (w *walk) doubt(c undecidedError) string {
	return fmt.Sprintf("table %s, chain %s%srule handle %d of %s has %s", w.position.base.Chain.Table, w.position.base.Chain.Name, doubtVerb,
		w.position.handle, w.position.chain.Name, strings.TrimPrefix(string(c), "expression "))
}

// addDoubt notes that the effect of a rule is not known, once for each base chain.
func (w *walk) addDoubt(c undecidedError) {
	text := w.doubt(c)
	chain, _, _ := strings.Cut(text, doubtVerb)
	if !slices.ContainsFunc(w.record.doubts, func(d string) bool { return strings.HasPrefix(d, chain+doubtVerb) }) {
		w.record.doubts = append(w.record.doubts, text)
	}
}

// inChain reports whether the packet is in a chain of ours whose name begins with the word,
// without the prefixes for node ports and the node's own clients.
func (w *walk) inChain(word string) bool {
	name := strings.TrimPrefix(w.position.chain.Name, "node-port-")
	name = strings.TrimPrefix(name, "local-")
	return w.position.isOurs() && strings.HasPrefix(name, word)
}

// noteLookup notes the result of a lookup.
func (w *walk) noteLookup(set *Set, key []byte, e Element, found bool) {
	if w.brief {
		w.record.metService = w.record.metService || found && w.position.isOurs() && (set.Name == "services" || set.Name == "node-ports")
		return
	}
	text := valueText(set.KeyType, key)
	if !w.position.isOurs() {
		w.reason = reason{text: foreignLookupText(set, text, found)}
		return
	}
	if set.Anonymous {
		return
	}
	if id, known := nft.SetNamed(w.packet.Family(), set.Name); known && found {
		w.record.lastSet = id.Kind
	}
	switch {
	case !found:
		w.noteMiss(set, text)
	case e.Verdict != nil:
		w.noteDispatch(set, text, e)
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
func (w *walk) noteDispatch(set *Set, key string, e Element) {
	name := ""
	if e.Comment != "" {
		name = " (" + e.Comment + ")"
		w.record.service = e.Comment
	}
	switch set.Name {
	case "services", "node-ports":
		w.record.metService, w.record.kind = true, frontendKind(e.Verdict.Chain)
	case "no-endpoint-node-ports":
		w.record.kind = "NodePort"
	}
	w.reason = reason{text: fmt.Sprintf("%s has %s%s", set.Name, key, name)}
	if e.Verdict.Kind == expr.VerdictGoto || e.Verdict.Kind == expr.VerdictJump {
		w.note(w.reason.prefix("goto " + e.Verdict.Chain))
	}
}

// frontendKind returns the kind of an address by the chain it leads to.
func frontendKind(chain string) string {
	switch {
	case strings.HasPrefix(chain, "node-port-"):
		return "NodePort"
	case strings.HasPrefix(chain, "external-"), strings.HasPrefix(chain, "service-"), strings.HasPrefix(chain, "local-service-"):
		return "External"
	}
	return "ClusterIP"
}

// noteMiss notes that a set does not have a key, if that is of interest.
func (w *walk) noteMiss(set *Set, key string) {
	id, known := nft.SetNamed(w.packet.Family(), set.Name)
	text := fmt.Sprintf("%s does not have %s", set.Name, key)
	w.reason = reason{text: text}
	switch {
	case !known:
	case id.Kind == nft.SetServices || id.Kind == nft.SetNodePorts || id.Kind == nft.SetLocalServices || id.Kind == nft.SetLocalNodePorts:
		w.note(text)
	case id.Kind == nft.SetStickyEndpoints && !w.record.picked: // of an endpoint that is gone
	case id.Kind == nft.SetStickyNumbers: // of a slot that is free: another one is picked
	case id.Kind >= nft.SetEndpoints && id.Kind < nft.SetAffinity,
		id.Kind == nft.SetServiceIPs || id.Kind == nft.SetNodePortServiceIPs || id.Kind == nft.SetNodePortServicePorts:
		w.addFault(text)
	}
}

// noteNoMatch notes why a rule did not match, if that decides something.
func (w *walk) noteNoMatch() {
	if w.inChain("cluster-") && w.reason.text != "" {
		w.record.why = w.reason.text
		w.note(w.reason.prefix("it keeps its address"))
	}
}

// noteJump notes that a rule with a reason sends the packet to another chain.
func (w *walk) noteJump(e any, v verdict) {
	_, direct := e.(*expr.Verdict)
	away := v.kind == expr.VerdictGoto || v.kind == expr.VerdictJump
	if !direct || !away || w.reason.text == "" || v.chain == "restore" {
		return
	}
	if id := nft.ChainNamed(w.frame.family, v.chain); id.Kind == nft.ChainSourcePort && w.position.isOurs() {
		w.record.requested = w.reason.text // noted there
		return
	}
	if w.inChain("external-local") {
		w.record.why = w.reason.text
	}
	w.noteOurs(w.reason.prefix("goto " + v.chain))
}

// setMark changes the packet's mark.
func (w *walk) setMark(mark uint32) {
	fresh := mark&^w.frame.mark != 0
	w.frame.mark = mark
	if !fresh || !w.position.isOurs() {
		return
	}
	if w.reason.text == "" && w.inChain("external") {
		w.reason.text = cmp.Or(w.record.why, "an external address under Cluster policy")
	}
	w.record.why = w.reason.text
	if w.inChain("masquerade-") {
		w.record.why = "everything is masqueraded (masqueradeAll)"
		w.reason.text = w.record.why
	}
	w.note(w.reason.prefix("marked for masquerade"))
}

// noteNewDestination notes that a rule wrote another destination.
func (w *walk) noteNewDestination(before netip.AddrPort) {
	after := w.frame.destination()
	switch {
	case after == before:
	case w.inChain("restore"):
		w.note("nothing was translated: the destination is " + after.String() + " again")
	default:
		w.noteOurs(w.reason.prefix("the destination becomes " + after.String() + ", the ClusterIP"))
	}
}

// notePick notes that one of several is picked.
func (w *walk) notePick(n uint32, how string) {
	w.record.picked = w.record.picked || w.position.isOurs()
	w.noteOurs(fmt.Sprintf("picks one of %d %s", n, how))
}

// noteAffinity notes what the affinity map has for the client: the number of an endpoint,
// by which another map has it.
func (w *walk) noteAffinity(set *Set, key []byte, e Element, found bool, timeout time.Duration) error {
	id, known := nft.SetNamed(w.frame.family, set.Name)
	if !w.position.isOurs() || !known || id.Kind != nft.SetAffinity {
		return nil
	}
	if !found {
		w.note(fmt.Sprintf("%s does not know the client: it is remembered from now on, for %s", set.Name, timeout))
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
		w.note(set.Name + " has an endpoint for the client that is gone: the client gets another one")
		return nil
	}
	at := decodeAddrPort(w.frame.family, endpoint.Data)
	w.record.affinity = &Affinity{Endpoint: at, Expires: e.Expires}
	w.note(fmt.Sprintf("%s remembers that the client has %s, for %s", set.Name, at, e.Expires.Round(time.Second)))
	return nil
}

// translate translates the connection and notes it.
func (w *walk) translate(source bool, to netip.AddrPort) {
	side := "goes to "
	if source {
		side = "the source becomes "
	}
	w.note(w.reason.prefix(side + to.String()))
	w.setTranslation(source, to)
}

// applyMasquerade translates the source to an address of the node and notes it.
func (w *walk) applyMasquerade(as netip.Addr) {
	why := cmp.Or(w.reason.text, w.record.requested)
	switch {
	case !w.position.isOurs():
		w.record.why = w.position.String()
	case strings.HasPrefix(why, "hairpin"):
		w.record.why = "a pod reaches itself"
	case why == "":
		why = "it is marked"
	}
	w.record.masquerade = true
	w.note(reason{text: why}.prefix("masquerade, the source becomes " + as.String()))
	w.setTranslation(true, netip.AddrPortFrom(as, 0))
}

// noteRefused notes that the packet is refused with an answer.
func (w *walk) noteRefused(how string) {
	w.record.how, w.record.verdict = how, VerdictRefused
	w.note(w.reason.prefix("refused with " + how))
}

// noteDropped notes what dropped the packet.
func (w *walk) noteDropped() {
	if w.record.verdict != VerdictRefused {
		w.record.verdict = VerdictDropped
		w.note(w.reason.prefix("dropped"))
	}
	w.record.by = &RuleRef{Table: w.position.chain.Table.String(), Chain: w.position.chain.Name, Rule: w.position.handle}
	switch {
	case !w.position.isOurs():
	case len(w.record.faults) > 0:
		w.record.because = "the packet comes here only because " + w.record.faults[0]
	default:
		w.record.because = verdictReason(w.record.lastSet, w.record.verdict)
	}
}

// noteUnreachable notes that there is no route.
func (w *walk) noteUnreachable(err error) {
	w.position = position{}
	w.record.verdict, w.record.how = VerdictUnreachable, err.Error()
	w.record.steps = append(w.record.steps, Step{Hook: "routing", Back: w.record.back, Text: err.Error()})
}
