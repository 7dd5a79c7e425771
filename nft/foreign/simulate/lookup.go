package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/nftables/expr"
)

// find looks up the key that begins at a register in a set, with what the packet itself has
// added and deleted.
func (w *walk) find(name string, register uint32) (set *Set, key []byte, e Element, found bool, err error) {
	set, err = w.set(w.position.chain.Table, name)
	if err != nil {
		return nil, nil, e, false, err
	}
	key, err = w.regs.readKnown(register, int(set.KeyLen), "the key looked up in "+set.Name+" is unknown")
	if err != nil {
		return set, nil, e, false, err
	}
	key = slices.Clone(key)
	if e, changed := w.addedElements[elementKey{w.position.chain.Table, name, string(key)}]; e != nil {
		return set, key, *e, true, nil
	} else if changed {
		return set, key, Element{}, false, nil
	}
	e, found, err = w.element(w.position.chain.Table, set, key)
	return set, key, e, found, err
}

type elementKey struct {
	table    Table
	set, key string
}

func (w *walk) lookup(e *expr.Lookup) (verdict, error) {
	set, key, el, found, err := w.find(e.SetName, e.SourceRegister)
	if err != nil {
		return verdictBreak, err
	}
	w.noteLookup(set, key, el, found)
	switch {
	case found && el.Decides:
		return verdictBreak, undecidedError("a limit in an element of " + set.Name)
	case found == e.Invert:
		return verdictBreak, nil
	case !e.IsDestRegSet:
		return verdictContinue, nil
	case el.Verdict != nil:
		return verdict{el.Verdict.Kind, el.Verdict.Chain}, nil
	}
	return verdictContinue, w.regs.load(e.DestRegister, known(el.Data))
}

const dynsetDelete = 2

// dynset adds the packet's key to a set, or refreshes the timeout of its element, which
// does not change what that holds; or it deletes the element.
func (w *walk) dynset(e *expr.Dynset) (verdict, error) {
	set, err := w.set(w.position.chain.Table, e.SetName)
	if err != nil {
		return verdictBreak, err
	}
	v, err := w.regs.read(e.SrcRegKey, int(set.KeyLen))
	if err != nil {
		return verdictBreak, err
	}
	limited := e.Invert || slices.ContainsFunc(e.Exprs, func(x expr.Any) bool {
		_, counts := x.(*expr.Counter)
		return !counts
	})
	at := elementKey{w.position.chain.Table, e.SetName, string(v.bytes)}
	switch {
	case limited && (!set.IsMap || !v.isKnown()):
		return verdictBreak, undecidedError("dynset with a limit")
	case !v.isKnown():
		return verdictContinue, nil
	case e.Operation == dynsetDelete:
		w.addedElements[at] = nil
		return verdictContinue, nil
	case !set.IsMap:
		w.addedElements[at] = &Element{Expires: cmp.Or(e.Timeout, set.Timeout)}
		return verdictContinue, nil
	}
	_, key, el, found, err := w.find(e.SetName, e.SrcRegKey)
	if err != nil {
		return verdictBreak, err
	}
	w.report(EventAdd, "", Event{Set: set, Key: key, Element: el, Found: found, Timeout: e.Timeout})
	if found {
		return matchVerdict(!e.Invert), nil
	}
	data, err := w.regs.read(e.SrcRegData, dataLength(set))
	if err != nil {
		return verdictBreak, err
	}
	w.addedElements[at] = &Element{
		Data: slices.Clone(data.bytes), Expires: max(e.Timeout, time.Millisecond),
	}
	return matchVerdict(!e.Invert), nil
}

func dataLength(set *Set) int {
	n := 0
	for _, k := range dataTypes(set.DataType) {
		n += int(k.length)
	}
	return n
}
