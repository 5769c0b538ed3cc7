"""Run with PYTHONPATH = lib of a commit: which rows are of this very code, and its identities by the new rule."""
import json,sys,ast,types,hashlib,inspect
rows=json.load(open(sys.argv[1])); out=sys.argv[2]
src=open('./lib/roofbook/spec/host_code.py').read()
src=src.replace('from ..paths import cached_text\n','').replace('from ..errors import UsageError\n','')
hc=types.ModuleType('hc'); sys.modules['hc']=hc; hc.__dict__['cached_text']=None; hc.__dict__['UsageError']=ValueError
exec(compile(src,'hc','exec'),hc.__dict__)
hc.INSIDE=("roofbook.labs.","roofbook.peers","roofbook.kernel_run","roofbook.peaks","roofbook.spec.kernel_run")
base=hc._Plain
SOURCE_OF={"Source.of(HERE / 'total.k', GROUP_SIZE=64)":"Source.of(HERE / 'total.k')",
 "Source.of(HERE / 'in_place.k', LAYOUT='SOA', GRID='ONE', PARTIALS='KEPT', SOLID='char', GROUP_SIZE=64)":"Source.of(HERE / 'in_place.k', LAYOUT='SOA', COUNT_CELLS=0, PARTIALS='KEPT', SOLID='char')"}
NAMES={'ceiling':'ceil_div','Ceiling':'Peak','Program':'CProgram','Graph':'GraphedSteps','Convolution':'TorchConvolution','Whole':'TorchWhole','Stencil':'TorchStencil'}
class Renaming(base):
    def visit_Name(self,node):
        node=super().visit_Name(node) if hasattr(base,'visit_Name') else node
        if isinstance(node,ast.Name): node.id=NAMES.get(node.id,node.id)
        return node
    def visit_ClassDef(self,node):
        node.name=NAMES.get(node.name,node.name)
        return super().visit_ClassDef(node) if hasattr(base,'visit_ClassDef') else self.generic_visit(node)
    def visit_FunctionDef(self,node):
        node.name=NAMES.get(node.name,node.name)
        return super().visit_FunctionDef(node) if hasattr(base,'visit_FunctionDef') else self.generic_visit(node)
    def visit_Call(self,node):
        text=ast.unparse(node)
        if text in SOURCE_OF: node=ast.parse(SOURCE_OF[text],mode='eval').body
        if isinstance(node.func,ast.Name) and node.func.id=='dict' and len(node.args)==1 and isinstance(node.args[0],ast.Attribute) and node.args[0].attr=='knobs' and not node.keywords:
            node=ast.Attribute(node.args[0].value,'settings',ast.Load())
            return self.visit(node)
        return self.generic_visit(node)
    def visit_Attribute(self,node):
        if node.attr=='turn': node=ast.Attribute(node.value,'with_knobs',node.ctx)
        node=super().visit_Attribute(node)
        if isinstance(node,ast.Name): node.id=NAMES.get(node.id,node.id)
        return node
hc._Plain=Renaming
orig_read=hc._Reader.read
def read(self,module,name):
    if name in ('processors','cache_dir') : return
    return orig_read(self,module,name)
hc._Reader.read=read
try: from roofbook import labs
except ImportError: labs=None
from roofbook.store import cell_key
def get(n): return labs.get(n)
res=[]
cache={}
try:
    from roofbook.labs.lenet import data as ldata
    names=['fashion-mnist','digits']
except Exception: ldata=None
def case_variants(lab,name,scale):
    if lab.name=='lenet' and ldata is not None:
        for n in ('fashion-mnist','digits', *[x for x in []]):
            orig=ldata.at_hand
            ldata.at_hand=lambda n=n:n
            try: yield lab.case(name,scale)
            except Exception as e: pass
            finally: ldata.at_hand=orig
    else:
        try: yield lab.case(name,scale)
        except Exception as e: pass
for r in rows:
    try:
        lab=get(r['lab']); v=lab.variant(r['variant'])
    except Exception as e:
        res.append({'i':r['i'],'match':False,'why':'no variant'}); continue
    fk=(r['lab'],r['variant'])
    if fk not in cache:
        try:
            fp=v.fingerprint(); txt=v.source.resolve() if v.source else None
            h=hc.hash_of_plan(v.plan)
            cache[fk]=(fp,txt,h,v.source.sha256 if v.source else None)
        except Exception as e:
            cache[fk]=(None,None,None,repr(e))
    fp,txt,h,sha=cache[fk]
    if fp is None: res.append({'i':r['i'],'match':False,'why':sha}); continue
    m=False
    for case in case_variants(lab,r['case'],r['scale']):
        cell={"lab":lab.name,"variant":v.name,"case":{"name":case.name,**case.params},"units":r['units'],"dtype":v.dtype,**fp,"backend":r['backend'],"policy":{"cache":r['cache'],"seed":r['seed']},"device":r['device']}
        if r['role']=='profile': cell['tool']='ncu'
        try: k=cell_key(cell)
        except Exception as e: continue
        if k==r['cell_key']: m=True; params=case.params; break
    res.append({'i':r['i'],'match':m,'sha_match':sha==r['source_sha256'],'host':h,'norm':hc.hash_of_text(txt) if txt else None,'params':params if m else None,'why':None if m else 'key differs'})
json.dump(res,open(out,'w'))
print(sum(x['match'] for x in res),'of',len(res), 'source matches', sum(bool(x.get('sha_match')) for x in res))
