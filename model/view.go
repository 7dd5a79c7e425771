package model

// view is the endpoints of a Service as a node sees them.
type view struct {
	slices []EndpointSlice
	node   *Node
	kept   *gathered // of a Service with many slices; else nil
}

// selection chooses among those who make the offer, and lists those that flows
// may stay with if asked to.
func (v *view) selection(o offer, flows bool) selectedEndpoints {
	if v.kept != nil {
		return v.kept.selection(o, flows)
	}
	r := roll{offer: o}
	r.call(v.slices, v.node)
	r.choose(v.slices, flows)
	return r.chosen
}

// hosted are the addresses that are ready on the node.
func (v *view) hosted() hosted {
	if v.kept != nil {
		return v.kept.hosted
	}
	out := hosted{}
	for i := range v.slices {
		out.count(&v.slices[i], v.node, 1)
	}
	return out
}
