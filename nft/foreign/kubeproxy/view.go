package kubeproxy

import (
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
)

// A view is the rules of a node as they would be in another state of the take-over. It implements
// [simulate.Rules].
type view struct {
	kernel simulate.Rules
	found  *Found
	before bool
}

// AfterTakeover returns the rules as if those that were found were suspended.
func (f *Found) AfterTakeover(kernel simulate.Rules) simulate.Rules { return view{kernel, f, false} }

// BeforeTakeover returns the rules as if those that were found were not suspended, and ours did not
// exist.
func (f *Found) BeforeTakeover(kernel simulate.Rules) simulate.Rules { return view{kernel, f, true} }

// BaseChains implements [simulate.Rules].
func (v view) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	list, err := v.kernel.BaseChains(f)
	ignored := func(b simulate.BaseChain) bool { return v.before && b.Table.Name == nft.TableName }
	return slices.DeleteFunc(list, ignored), err
}

// Rules implements [simulate.Rules].
func (v view) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	for _, p := range v.found.Parts {
		if chainIn(p.Family, p.Table, p.Chain) != c {
			continue
		}
		if !v.before {
			return nil, nil
		}
		list, err := v.kernel.Rules(c)
		return slices.DeleteFunc(list, func(r simulate.Rule) bool { return slices.Contains(p.handles, r.Handle) }), err
	}
	return v.kernel.Rules(c)
}

// Set implements [simulate.Rules].
func (v view) Set(t simulate.Table, name string) (*simulate.Set, error) {
	return v.kernel.Set(t, name)
}
