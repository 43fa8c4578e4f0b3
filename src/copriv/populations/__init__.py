"""What the owners' records may be: laws of features, targets and heterogeneity, as far as public rows tell.

A world (`world`) is a draw of all records, and of who holds which. `dealt.draw_worlds` draws it by one of three laws:

* owners that are alike hold one pool, which `law` draws from the public rows (`features`, `targets`; `public_sample` has the
  fitness on these rows);
* owners that strata of the public rows tell apart have a law each (`by_owner`), about a best model of its own
  (`owner_posterior`), and the pool is all their records;
* for other owners, the pool of the first law is divided unequally (`dealt`).

The last two are not one law: where nobody knows whose a public row is, an owner's deviation cannot be added to a row's target
without counting it twice (decision 0007).

`public_mix` tests whether the public rows are of the owners' mix, and `diagnosis` estimates heterogeneity after a run.
"""
