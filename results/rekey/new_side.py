import json,collections
from roofbook.spec import registry, host_code
from roofbook.spec.source import Source
exec(open('results/rekey/old_side.py').read().split('base=hc._Plain')[1].split('hc._Plain=Renaming')[0].replace('hc.','host_code.').replace('(base)','(host_code._Plain)').join(['base=host_code._Plain\nimport ast\n','\nhost_code._Plain=Renaming\n']))
rows=json.load(open('rekey.work/rows.json')); res={int(k):v for k,v in json.load(open('rekey.work/res.json')).items()}
before=json.load(open('results/rekey/rows-before.json')); after=json.load(open('results/rekey/after/rows.json'))
proof={}
for l in open('results/rekey/proof.txt'):
    p=l.split()
    if len(p)>=6 and p[0] in 'abc' and '/' in p[1]: proof[p[1]]=p
c=collections.Counter(); bad=collections.Counter()
new={}
plan={}
for r in rows:
    x=res.get(r['i'])
    lab=registry.get(r['lab'])
    try: v=lab.variant(r['variant'])
    except Exception: c['variant gone']+=1; continue
    key=(r['lab'],r['variant'])
    if key not in new: new[key]=(v.source.sha256 if v.source else None, host_code.hash_of_plan(v.plan), v.fingerprint())
    sha,host,fp=new[key]
    k='same' if x.get('norm')==sha else None
    if k is None:
        p=proof.get('/'.join(key))
        # old row's sha must be that of the tree before the kernels' edits
        if p and p[0] in 'bc' and r['source_sha256'] and r['source_sha256'].startswith(p[4 if len(p[4])==16 else -2]): k='ptx'
    if k is None: k='no source' if sha is None and r['source_sha256'] is None else 'DIFFERENT'
    h='host same' if x['match'] and x['host']==host else ('host no proof' if not x['match'] else 'host DIFFERENT')
    c[k,h]+=1
    if k=='DIFFERENT' or 'DIFF' in h: bad[key[0],v.plan.__qualname__,k,h]+=1
print(c)
for k,n in bad.most_common(60): print(k,n)
