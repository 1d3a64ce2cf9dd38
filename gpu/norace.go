//go:build !race

package gpu

const raceBuild = false

func hide() {}
func show() {}
